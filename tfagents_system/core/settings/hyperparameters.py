"""Declares hyperparameters: each is a dataclass field with its default, range and meaning.

    @dataclasses.dataclass(eq=False, repr=False)
    class MySettings:
        num_iter: int = count(1000, "iterations until training is finished")

Checks, the table in docs/settings.md and gin.txt are all made from these fields.
"""

import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.names_elsewhere import NAMES_ELSEWHERE
from tfagents_system.core.settings.variables import VARIABLES

MOST_COUNT = 10**9  # the product of two fits into 64 bits
_KEY = "hyperparameter"  # key of a field's metadata
_HOOKS_HERE = {hook: f"the method {hook} of TrainParams, in the params file" for hook in HOOKS}
_VARIABLES_HERE = {
    variable.removeprefix("SAC_").lower(): f"the variable {variable}" for variable in VARIABLES
}


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """One published hyperparameter."""

    default: Any
    is_allowed: Callable[[Any], bool]  # may raise ValueError, with the reason
    allowed: str  # range that `is_allowed` accepts, in words
    meaning: str

    def check(self, name: str, value: Any, where: str) -> None:
        """Raises ConfigError if `value`, set at `where`, is not allowed."""
        reason = ""
        try:
            is_allowed = self.is_allowed(value)
        except ValueError as error:
            is_allowed, reason = False, f" ({error})"
        if not is_allowed:
            shown = f"{where}: {name} is {_shown(value)}{reason}"
            raise ConfigError(f"{shown}; expected {self.allowed}.")


def hyperparameters(*classes: type) -> dict[str, Hyperparameter]:
    """Returns the hyperparameters that `classes` and their bases declare, by name."""
    declared: dict[str, Hyperparameter] = {}
    for base in (base for cls in classes for base in cls.__mro__):
        for field in vars(base).get("__dataclass_fields__", {}).values():
            if _KEY in field.metadata:
                declared.setdefault(field.name, field.metadata[_KEY])  # a class overrides its bases
    return declared


def check_hyperparameter(
    declared: Mapping[str, Hyperparameter], name: str, value: Any, where: str
) -> None:
    """Raises ConfigError if `name` is not declared or `value` is not allowed."""
    check_is_declared(declared, name, where)
    declared[name].check(name, value, where)


def check_is_declared(declared: Collection[str], name: str, where: str) -> None:
    """Raises ConfigError, with a hint at what is meant, if `name` is not a hyperparameter."""
    if name in declared:
        return
    elsewhere = {**_VARIABLES_HERE, **_HOOKS_HERE, **NAMES_ELSEWHERE}
    meant = elsewhere.get(name.lower().removeprefix("sac_"))
    hint = f" Here it is {meant}." if meant else did_you_mean(name, declared)
    raise ConfigError(f"{where}: {name} is not a training parameter.{hint}")


def declare(default: Any, is_allowed: Callable[[Any], bool], allowed: str, meaning: str) -> Any:
    """Returns the dataclass field of a hyperparameter; `allowed` is its range in words."""
    hyperparameter = Hyperparameter(default, is_allowed, allowed, meaning)
    return dataclasses.field(default=default, metadata={_KEY: hyperparameter})


def count(default: int, meaning: str, at_least: int = 1) -> Any:
    """Declares an integer >= `at_least`."""
    allowed = f"an integer >= {at_least} and <= {MOST_COUNT}"
    return declare(default, lambda v: is_count(v, at_least), allowed, meaning)


def optional_count(default: int | None, meaning: str) -> Any:
    """Declares an integer >= 1, or None."""
    allowed = f"None or an integer >= 1 and <= {MOST_COUNT}"
    return declare(default, lambda v: v is None or is_count(v, 1), allowed, meaning)


def number(default: float, meaning: str) -> Any:
    """Declares any finite number."""
    return declare(default, is_number, "a number", meaning)


def positive(default: float, meaning: str) -> Any:
    """Declares a number > 0."""
    return declare(default, lambda v: is_number(v) and v > 0, "a number > 0", meaning)


def optional_positive(default: float | None, meaning: str) -> Any:
    """Declares a number > 0, or None."""
    return declare(
        default,
        lambda v: v is None or (is_number(v) and v > 0),
        "None or a number > 0",
        meaning,
    )


def number_between(low: float, high: float, default: float, meaning: str) -> Any:
    """Declares a number from `low` to `high`, both included."""
    allowed = f"a number in [{low:g}, {high:g}]"
    return declare(default, lambda v: is_number(v) and low <= v <= high, allowed, meaning)


def layers(default: tuple[int, ...], meaning: str) -> Any:
    """Declares the units of hidden layers, possibly none."""
    return declare(
        default,
        lambda v: isinstance(v, (tuple, list)) and all(is_count(n, 1) for n in v),
        "a tuple of integers > 0",
        meaning,
    )


def flag(default: bool, meaning: str) -> Any:
    """Declares True or False."""
    return declare(default, lambda v: isinstance(v, bool), "True or False", meaning)


def optional_flag(default: bool | None, meaning: str) -> Any:
    """Declares True, False or None."""
    allowed = "True, False or None"
    return declare(default, lambda v: v is None or isinstance(v, bool), allowed, meaning)


def one_of(choices: Collection[str], default: str, meaning: str) -> Any:
    """Declares one of some strings."""
    allowed = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return declare(default, lambda v: isinstance(v, str) and v in choices, allowed, meaning)


def is_count(value: Any, at_least: int) -> bool:
    """Returns whether `value` is an integer from `at_least` to MOST_COUNT."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int and at_least <= value <= MOST_COUNT


def are_names(value: Any) -> bool:
    """Returns whether `value` is a list or tuple of different strings that are not empty."""
    return (
        isinstance(value, (list, tuple))
        and all(isinstance(name, str) and name for name in value)
        and len(set(value)) == len(value)
    )


def is_number(value: Any) -> bool:
    """Returns whether `value` is a finite number."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max  # isfinite fails for a huge integer


def _shown(value: Any, most: int = 200) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "an integer of thousands of digits"
    if (kind := type(value)).__module__ == "numpy":
        text += f" (a numpy.{kind.__name__}; its tolist() is Python's own)"
    return text if len(text) <= most else f"{text[:most]}..."
