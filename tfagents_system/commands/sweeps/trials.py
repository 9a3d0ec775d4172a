"""A sweep's trials: all combinations of a grid, and the ranges of a search."""

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting to try."""

    number: int
    values: Mapping[str, Any]  # by hyperparameter

    @property
    def assignments(self) -> list[str]:
        """Returns the setting in the syntax of `sac train --set`."""
        return [f"{name}={value!r}" for name, value in self.values.items()]


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; integers if both are."""

    low: float
    high: float
    is_log: bool

    def __str__(self) -> str:
        """Returns the range in the syntax of --search."""
        return f"{self.low}:{self.high}{':log' if self.is_log else ''}"


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parses "NAME=V1,V2,..." to values by name; a value that is not a literal is a string.

    Raises:
      ConfigError: For another syntax, or a value that is given twice.
    """
    pairs = _pairs(texts, "--grid", "NAME=V1,V2")
    grid = {name: _values(text) for name, text in pairs.items()}
    for name, values in grid.items():
        if twice := [value for value in values if values.count(value) > 1]:
            raise ConfigError(f"--grid has {name}={twice[0]!r} twice. Give each value once.")
    return grid


def parse_ranges(texts: Sequence[str]) -> dict[str, Range]:
    """Parses "NAME=LOW:HIGH" or "NAME=LOW:HIGH:log" to ranges by name.

    Raises:
      ConfigError: For another syntax.
    """
    form = "NAME=LOW:HIGH or NAME=LOW:HIGH:log, with LOW < HIGH, and 0 < LOW for log"
    ranges = {}
    for name, text in _pairs(texts, "--search", form).items():
        low, high, scale = (*text.split(":"), "", "", "")[:3]
        try:
            ends = ast.literal_eval(low), ast.literal_eval(high)
            if not all(isinstance(end, int) for end in ends):
                ends = float(ends[0]), float(ends[1])
            found = Range(*ends, scale == "log")
            is_right = text.count(":") < 3 and scale in ("", "log") and found.low < found.high
        except (ValueError, SyntaxError, TypeError, OverflowError):
            is_right = False
        if not is_right or (found.is_log and found.low <= 0):
            raise ConfigError(f"--search is '{name}={text}'; expected {form}.")
        ranges[name] = found
    return ranges


def grid_trials(grid: Mapping[str, Sequence[Any]]) -> Iterator[Trial]:
    """Yields all combinations of a grid, always in the same order."""
    for number, values in enumerate(itertools.product(*grid.values())):
        yield Trial(number, dict(zip(grid, values, strict=True)))


def _pairs(texts: Sequence[str], flag: str, form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise ConfigError(f"{flag} is {text!r}; expected {form}.")
        if name in pairs:
            raise ConfigError(f"{flag} has {name} twice: {pairs[name]} and {value}. Give it once.")
        pairs[name] = value
    return pairs


def _values(text: str) -> list[Any]:
    try:
        return list(ast.literal_eval(f"[{text}]"))
    except (ValueError, SyntaxError):
        return [part.strip() for part in text.split(",")]
