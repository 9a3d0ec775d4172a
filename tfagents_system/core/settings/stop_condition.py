"""The hyperparameter `stop_when`: conditions, in words, that end training early."""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_system.core.names import nearest_name
from tfagents_system.core.settings.info_patterns import STATISTICS, InfoPattern, number_name

RETURN, SUCCESS, TIME = "return", "success", "time"
STOP_WHEN_ALLOWED = (
    'None or conditions such as "success >= 0.95 for 3 evaluations", "return >= 900" or '
    '"time >= 2h", joined by the word or'
)
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # of time


class StopCondition(NamedTuple):
    """Ends training when a quantity has reached a bound."""

    text: str
    quantity: str  # "return", "success", "time" or a number of `log_info`
    relation: str  # one of RELATIONS
    bound: float  # in seconds for "time"
    num_evaluations: int = 1  # in a row; has no meaning for time

    def holds(self, value: float) -> bool:
        """Returns whether the condition holds for a value of the quantity."""
        return RELATIONS[self.relation](value, self.bound)


def is_stop_when(value: Any) -> bool:
    """Returns whether `value` is allowed for `stop_when`; raises ValueError, with the reason."""
    return value is None or (isinstance(value, str) and bool(parse_stop_when(value)))


def parse_stop_when(text: str | None) -> list[StopCondition]:
    """Returns the conditions of `stop_when`, any one of which suffices; none for None.

    Raises:
      ValueError: If `text` is not allowed; the message tells which part, and why.
    """
    if text is None:
        return []
    return [_parse(" ".join(part.split())) for part in re.split(r"\bor\b", text)]


def _parse(text: str) -> StopCondition:
    found = re.fullmatch(r"([^\s<>=]+) ?(>=|<=|>|<) ?(\S+(?: [a-z%]+)??)(?: for (.*))?", text)
    if not found:
        raise ValueError(
            f"{text!r} is not a comparison; write a quantity, one of {' '.join(RELATIONS)}, "
            "a number"
        )
    quantity, relation, bound, length = found.groups()
    if quantity == TIME:
        if relation not in (">=", ">") or length is not None:
            raise ValueError(f"{text!r}: write a time as time >= 2h")
        return StopCondition(text, quantity, relation, _seconds(bound))
    return StopCondition(text, quantity, relation, _number(quantity, bound), _count(text, length))


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", text)
    if not found or found[2] not in UNITS:
        raise ValueError(f"{text!r} is not a time; write a number and one of {', '.join(UNITS)}")
    return float(found[1]) * UNITS[found[2]]


def _number(quantity: str, text: str) -> float:
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a number")
    if quantity == SUCCESS and not 0 <= number <= 1:
        raise ValueError(f"a success rate is from 0 to 1, not {text}; write 0.95 or 95%")
    return number


def _count(text: str, length: str | None) -> int:
    if length is None:
        return 1
    found = re.fullmatch(r"([1-9]\d{0,5}) evaluations?", length)
    if not found:
        raise ValueError(f"{text!r}: after for comes a number of evaluations: for 3 evaluations")
    return int(found[1])


def unknown_quantity(conditions: Sequence[StopCondition], log_info: Sequence[str]) -> str | None:
    """Returns what is wrong with a quantity that no evaluation has; None if all are known."""
    patterns = [InfoPattern.parse(text) for text in log_info]
    for condition in conditions:
        name = condition.quantity
        if name in (RETURN, SUCCESS, TIME) or any(_may_record(p, name) for p in patterns):
            continue
        known = [RETURN, SUCCESS, TIME, *(number_name(p.keys, p.statistic) for p in patterns)]
        nearest = nearest_name(name, known)
        hint = f" Did you mean {nearest}?" if nearest else ""
        return (
            f"no quantity is called {name!r}; there are {', '.join(known)}, and what log_info "
            f'records, such as distance_{STATISTICS[0]} with log_info = ["distance"].{hint}'
        )
    return None


def _may_record(pattern: InfoPattern, name: str) -> bool:
    key = name.removesuffix(f"_{pattern.statistic}")
    return key != name and (
        pattern.selects(key) or name == number_name(pattern.keys, pattern.statistic)
    )
