"""Chooses a sweep's trials: every point of a grid, or what Optuna suggests within ranges."""

import ast
import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.core.checkout import how_to_install
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
      ConfigError: For another syntax.
    """
    return {name: _values(name, text) for name, text in _pairs(texts, "--grid", "NAME=V1,V2,...")}


def parse_ranges(texts: Sequence[str]) -> dict[str, Range]:
    """Parses "NAME=LOW:HIGH" or "NAME=LOW:HIGH:log" to ranges by name.

    Raises:
      ConfigError: For another syntax.
    """
    form = "NAME=LOW:HIGH or NAME=LOW:HIGH:log, with LOW < HIGH, and 0 < LOW for log"
    ranges = {}
    for name, text in _pairs(texts, "--search", form):
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
            raise ConfigError(f"--search is '{name}={text}'; allowed is {form}.")
        ranges[name] = found
    return ranges


def grid_trials(grid: Mapping[str, Sequence[Any]]) -> Iterator[Trial]:
    """Yields all combinations of a grid, always in the same order."""
    for number, values in enumerate(itertools.product(*grid.values())):
        yield Trial(number, dict(zip(grid, values, strict=True)))


class Study:
    """An Optuna study that maximizes the score; it is in a file, so that it survives a stop."""

    def __init__(self, file: pathlib.Path, ranges: Mapping[str, Range]):
        """Opens the study in `file`, or creates it.

        Raises:
          ConfigError: If Optuna is not installed, or the study in `file` has other ranges.
        """
        try:
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise ConfigError(
                f"--search needs Optuna ({error}): {how_to_install('optuna')}"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._ranges = ranges
        self._running = optuna.trial.TrialState.RUNNING
        self._study = optuna.create_study(
            study_name="sweep", direction="maximize", load_if_exists=True,
            storage=JournalStorage(JournalFileBackend(str(file))),
            sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True),
        )  # fmt: skip
        self._check_ranges(file)

    def earlier_trials(self) -> list[Trial]:
        """Returns the trials so far."""
        return [Trial(trial.number, dict(trial.params))
                for trial in self._study.get_trials(deepcopy=False)]  # fmt: skip

    def trials(self, count: int) -> Iterator[Trial]:
        """Yields `count` trials in all, those of earlier starts first; asks Optuna lazily."""
        earlier = self.earlier_trials()[:count]
        yield from earlier
        for _ in range(count - len(earlier)):
            trial = self._study.ask()
            for name, range_ in self._ranges.items():
                is_integer = isinstance(range_.low, int) and isinstance(range_.high, int)
                suggest = trial.suggest_int if is_integer else trial.suggest_float
                suggest(name, range_.low, range_.high, log=range_.is_log)
            yield Trial(trial.number, dict(trial.params))

    def _check_ranges(self, file: pathlib.Path) -> None:
        now = {name: str(range_) for name, range_ in self._ranges.items()}
        for trial in self._study.get_trials(deepcopy=False):
            before = {
                name: str(Range(found.low, found.high, found.log))
                for name, found in trial.distributions.items()
            }
            if before and before != now:  # without: a crash in the moment when it was made
                raise ConfigError(
                    f"{file} is of another --search: it has {_listed(before)}, not "
                    f"{_listed(now)}. Choose another --name, or give the ranges it has."
                )

    def tell(self, trial: Trial, score: float) -> None:
        """Records a score, unless an earlier start has done it."""
        if self._study.get_trials(deepcopy=False)[trial.number].state == self._running:
            self._study.tell(trial.number, score if math.isfinite(score) else None)


def _listed(ranges: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={range_}" for name, range_ in ranges.items()) or "no ranges"


def _pairs(texts: Sequence[str], flag: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise ConfigError(f"{flag} is {text!r}; allowed is {form}.")
        yield name, value


def _values(name: str, text: str) -> list[Any]:
    try:
        return list(ast.literal_eval(f"[{text}]"))
    except (ValueError, SyntaxError):
        return [part.strip() for part in text.split(",")]
