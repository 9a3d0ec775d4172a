"""The values of environment parameters: constants, and distributions that each episode draws from.

A value of the JSON config is a number, or an object such as
{"sampler": "uniform", "low": 0.5, "high": 1.5}.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.hyperparameters import is_number

LARGEST = 1e300  # differences of such numbers are finite
ALLOWED = "a number from -1e300 to 1e300"
CUSTOM = "custom"

# Draws a value: the parameter's name, the keys of its entry, a generator.
DrawCustom = Callable[[str, Mapping[str, Any], np.random.Generator], int | float]


class Sampler(Protocol):
    """A distribution of the values of one parameter."""

    def draw(self, generator: np.random.Generator) -> int | float:
        """Returns the value of one episode."""


@dataclasses.dataclass(frozen=True)
class Constant:
    """Always the same value."""

    value: int | float

    def draw(self, generator: np.random.Generator) -> int | float:
        """Returns the value."""
        return self.value


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Uniform in [low, high)."""

    low: float
    high: float

    def draw(self, generator: np.random.Generator) -> float:
        """Returns the value of one episode."""
        return float(generator.uniform(self.low, self.high))


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Normal, with the standard deviation `std`."""

    mean: float
    std: float

    def draw(self, generator: np.random.Generator) -> float:
        """Returns the value of one episode."""
        return float(generator.normal(self.mean, self.std))


@dataclasses.dataclass(frozen=True)
class MultiRange:
    """Uniform in one of the intervals [low, high), drawn in proportion to their widths."""

    intervals: tuple[tuple[float, float], ...]

    def draw(self, generator: np.random.Generator) -> float:
        """Returns the value of one episode."""
        widths = np.array([high - low for low, high in self.intervals])
        shares = widths / widths.sum() if widths.any() else None
        low, high = self.intervals[generator.choice(len(self.intervals), p=shares)]
        return float(generator.uniform(low, high))


@dataclasses.dataclass(frozen=True)
class Custom:
    """Drawn by `TrainParams.sample_parameter`."""

    name: str  # of the parameter
    settings: Mapping[str, Any]  # the other keys of the entry
    call: DrawCustom

    def draw(self, generator: np.random.Generator) -> int | float:
        """Returns the value of one episode; raises ConfigError if it is not a number."""
        value: Any = self.call(self.name, self.settings, generator)
        value = value.item() if isinstance(value, (np.number, np.ndarray)) else value
        if not is_value(value):
            raise ConfigError(
                f"TrainParams.sample_parameter returned {value!r} for {self.name}; expected "
                f"{ALLOWED}."
            )
        return value


_KEYS = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "gaussian": ("mean", "std"),
    "multi_range": ("intervals",),
    CUSTOM: (),
}


def sampler_of(entry: Any, where: str, name: str, call: DrawCustom) -> Sampler:
    """Returns the sampler of a number or an object with the key `sampler`.

    Args:
      entry: The value in the JSON config.
      where: File and key, for messages.
      name: Of the parameter.
      call: Draws the value of a custom sampler.

    Raises:
      ConfigError: If it is neither, or a key is missing, unknown or out of range.
    """
    if not isinstance(entry, Mapping):
        return Constant(number_of(entry, where, 'a number, or an object {"sampler": ...}'))
    check_keys(entry, ("sampler",), None, where)
    kind = entry["sampler"]
    if not isinstance(kind, str) or kind not in _KEYS:
        shown = json.dumps(kind)
        raise ConfigError(f"{where}.sampler is {shown}.{did_you_mean(str(kind), _KEYS)}")
    if kind == CUSTOM:
        return Custom(name, {key: v for key, v in entry.items() if key != "sampler"}, call)
    check_keys(entry, ("sampler", *_KEYS[kind]), (), where)
    if kind == "multi_range":
        return MultiRange(_intervals(entry["intervals"], f"{where}.intervals"))
    numbers = {key: number_of(entry[key], f"{where}.{key}") for key in _KEYS[kind]}
    if kind == "constant":
        return Constant(**numbers)
    if kind == "uniform":
        _check_order(numbers["low"], numbers["high"], where)
        return Uniform(**numbers)
    if numbers["std"] < 0:
        raise ConfigError(f"{where}.std is {numbers['std']}; expected a number >= 0.")
    return Gaussian(**numbers)


def is_value(value: Any) -> bool:
    """Returns whether `value` is a number that a parameter may have."""
    return is_number(value) and abs(value) <= LARGEST


def number_of(value: Any, where: str, allowed: str = ALLOWED) -> Any:
    """Returns `value` if it is a number; raises ConfigError otherwise."""
    if not is_value(value):
        raise ConfigError(f"{where} is {json.dumps(value)}; expected {allowed}.")
    return value


def check_keys(
    entry: Any, required: Collection[str], optional: Collection[str] | None, where: str
) -> None:
    """Raises ConfigError unless `entry` is an object with these keys; None: any others, too."""
    if not isinstance(entry, Mapping):
        keys = ", ".join(required)
        raise ConfigError(f"{where} is {json.dumps(entry)}; expected an object with {keys}.")
    known = {*required, *(entry if optional is None else optional)}
    if unknown := [key for key in entry if key not in known]:
        raise ConfigError(f"{where} has the key {unknown[0]!r}.{did_you_mean(unknown[0], known)}")
    if missing := [key for key in required if key not in entry]:
        raise ConfigError(f"{where} lacks the key {missing[0]!r}.")


def _intervals(value: Any, where: str) -> tuple[tuple[float, float], ...]:
    is_list = isinstance(value, list) and value
    if not is_list or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        allowed = "a list of pairs [low, high]"
        raise ConfigError(f"{where} is {json.dumps(value)}; expected {allowed}.")
    for index, pair in enumerate(value):
        for bound in pair:
            number_of(bound, f"{where}.{index}")
        _check_order(pair[0], pair[1], f"{where}.{index}")
    return tuple((low, high) for low, high in value)


def _check_order(low: float, high: float, where: str) -> None:
    if low > high:
        raise ConfigError(f"{where} has low {low} above high {high}; expected low <= high.")
