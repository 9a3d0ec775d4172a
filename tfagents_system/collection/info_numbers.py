"""Takes the numbers that `log_info` names out of the info of each env step."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_system.core.names import nearest_name
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.settings.info_patterns import InfoPattern, number_name

MOST_KEYS = 20  # in a message


class InfoFault(NamedTuple):
    """An entry of `log_info`, or a value, that cannot be recorded."""

    shown: str  # a few words for the status line; empty: only for the log
    text: str  # a sentence


class InfoNumbers:
    """The numbers of one episode at a time.

        numbers.begin()
        numbers.add(environment.get_info())   # after each env step
        numbers.end()   # {"distance_mean": 0.2}
        numbers.new_faults()

    Keys of a dict within the info are joined by "/": "reward/forward". A key counts in the env
    steps that have it. Values that are not finite numbers, alone or in an array of one element, are
    left out.
    """

    def __init__(self, log_info: Sequence[str]):
        """`log_info` are the entries of the hyperparameter."""
        self._patterns = {text: InfoPattern.parse(text) for text in log_info}
        self._statistics: dict[str, list[str]] = {}  # by key, as far as seen
        self._tallies: dict[str, _Tally] = {}  # by key, of this episode
        self._unmatched = set(self._patterns)
        self._have_numbers: set[str] = set()  # keys
        self._left_out: dict[str, Any] = {}  # the first value by key, until told
        self._told: set[str] = set()

    def __bool__(self) -> bool:
        """Returns True if any number is wanted."""
        return bool(self._patterns)

    @property
    def log_info(self) -> list[str]:
        """The entries of the hyperparameter."""
        return list(self._patterns)

    def begin(self) -> None:
        """Begins an episode."""
        self._tallies = {}

    @OnlyReports("numbers of the info")
    def add(self, info: Any) -> None:
        """Adds the info of an env step, of any type."""
        self._add(info, "")

    def _add(self, info: Any, prefix: str) -> None:
        if not isinstance(info, Mapping):
            return
        for name, value in info.items():
            key = f"{prefix}{name}"
            if (statistics := self._statistics.get(key)) is None:
                if isinstance(value, Mapping):
                    self._add(value, f"{key}/")
                    continue
                statistics = self._learn(key, value)
            if not statistics:
                continue
            if (number := _as_number(value)) is None:
                self._left_out.setdefault(key, value)
            elif key in self._tallies:
                self._tallies[key].add(number)
            else:
                self._tallies[key] = _Tally(number)

    def _learn(self, key: str, value: Any) -> list[str]:
        """Returns what is recorded of a new key."""
        matching = {text: p for text, p in self._patterns.items() if p.selects(key)}
        self._unmatched -= matching.keys()
        if _as_number(value) is not None:
            self._have_numbers.add(key)
        self._statistics[key] = list(dict.fromkeys(p.statistic for p in matching.values()))
        return self._statistics[key]

    def end(self) -> dict[str, float]:
        """Returns the numbers of the episode by name."""
        return {
            number_name(key, statistic): getattr(tally, statistic)
            for key, tally in self._tallies.items()
            for statistic in self._statistics[key]
        }

    def new_faults(self) -> list[InfoFault]:
        """Returns what cannot be recorded, each fault once; call it after a complete episode."""
        left_out = {k: v for k, v in self._left_out.items() if k not in self._told}
        self._told |= left_out.keys()
        named = {p.keys for p in self._patterns.values() if p.is_key}
        faults = [self._unmatched_fault(text) for text in sorted(self._unmatched - self._told)]
        self._told |= self._unmatched
        faults += [
            InfoFault(
                f"LOG_INFO: {key} IS NOT A NUMBER",
                f"log_info leaves out info[{key!r}], which is {_shown(value)}; recorded are finite "
                "numbers, alone or in an array of one element.",
            )
            for key, value in left_out.items()
            if key in named
        ]
        if others := [key for key in left_out if key not in named]:
            keys = _listed(others)
            faults.append(
                InfoFault("", f"log_info leaves out values that are not finite numbers: {keys}.")
            )
        return faults

    def _unmatched_fault(self, text: str) -> InfoFault:
        keys = self._have_numbers
        there_are = f"its numbers are {_listed(sorted(keys))}" if keys else "it has no numbers"
        nearest = nearest_name(self._patterns[text].keys, keys)
        hint = f" Did you mean {nearest}?" if nearest else ""
        return InfoFault(
            f"LOG_INFO: NOTHING IS CALLED {text}",
            f"log_info has {text!r}, but no key of the environment's info matches; {there_are}."
            f"{hint}",
        )

    @property
    def keys(self) -> list[str]:
        """Keys of the info that have had a number so far."""
        return sorted(self._have_numbers)


class _Tally:
    """The statistics of one key."""

    def __init__(self, number: float):
        self.last = self.min = self.max = self._sum = number
        self._count = 1

    def add(self, number: float) -> None:
        self.last = number
        self._sum += number
        self._count += 1
        if number < self.min:
            self.min = number
        elif number > self.max:
            self.max = number

    @property
    def mean(self) -> float:
        return self._sum / self._count


def _as_number(value: Any) -> float | None:
    if not isinstance(value, (bool, int, float)):
        try:
            array = np.asarray(value)
        except Exception:  # an array of another library, or ragged
            return None
        if array.size != 1 or array.dtype.kind not in "biuf":
            return None
        value = array.item()
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size != 1:
        return f"{value.dtype} of shape {value.shape}"
    return f"{repr(value)[:40]} ({type(value).__name__})"


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    return f"{', '.join(keys[:MOST_KEYS])}{more}"
