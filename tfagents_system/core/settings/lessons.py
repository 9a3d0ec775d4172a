"""Lessons of environment parameters, and when each ends. Pure."""

import collections
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.samplers import (
    DrawCustom,
    Sampler,
    check_keys,
    number_of,
    sampler_of,
)

REWARD, PROGRESS = "reward", "progress"
NEW_SHARE = 0.75  # of the newest mean in the smoothed one
MOST_EPISODES = 1_000_000
_OPTIONAL = ("min_lesson_length", "signal_smoothing")


@dataclasses.dataclass(frozen=True)
class Criterion:
    """The end of a lesson: a measure is above a threshold."""

    measure: str  # REWARD: mean return of the newest episodes; PROGRESS: share of train steps done
    threshold: float
    min_lesson_length: int = 0  # episodes of the lesson before it may end
    signal_smoothing: bool = True  # of the mean return


@dataclasses.dataclass(frozen=True)
class Lesson:
    """The values of one parameter during one lesson."""

    value: Sampler
    until: Criterion | None  # None: the last lesson
    name: str = ""


class LessonState:
    """The current lesson of each parameter; lessons end by returns and by progress.

    The mean covers the newest returns since any lesson last changed, as many as the largest
    `min_lesson_length`. The smoothed mean starts at 0; with each return it becomes 0.25 of itself
    plus 0.75 of the mean. It carries over to the next lesson, so a lesson ends only if the mean
    itself is above the threshold, too. Parameters change independently of each other.
    """

    def __init__(
        self,
        courses: Mapping[str, Sequence[Lesson]],
        lessons: Mapping[str, int] | None = None,
        smoothed: Mapping[str, float] | None = None,
    ):
        """Begins with the first lessons, or with those given by parameter, counted from 0."""
        self._courses = courses
        begun, before = lessons or {}, smoothed or {}
        self.lessons = {
            name: min(begun.get(name, 0), len(course) - 1) for name, course in courses.items()
        }
        self.smoothed = {name: before.get(name, 0.0) for name in courses}
        criteria = [lesson.until for course in courses.values() for lesson in course]
        lengths = [criterion.min_lesson_length for criterion in criteria if criterion]
        self._returns: collections.deque[float] = collections.deque(maxlen=max([1, *lengths]))

    @property
    def is_over(self) -> bool:
        """True if all parameters are in their last lesson."""
        return all(self._criterion(name) is None for name in self._courses)

    def decide(self, progress: float, episode_return: float | None = None) -> bool:
        """Ends lessons that are over; returns whether there was one.

        Args:
          progress: Share of the train steps that is done.
          episode_return: Return of one more episode of the current lessons, if there is one.
        """
        if episode_return is not None:
            self._returns.append(episode_return)
        has_new = episode_return is not None
        ended = [name for name in self._courses if self._is_over(name, progress, has_new)]
        for name in ended:
            self.lessons[name] += 1
        if ended:
            self._returns.clear()
        return bool(ended)

    def _criterion(self, name: str) -> Criterion | None:
        return self._courses[name][self.lessons[name]].until

    def _is_over(self, name: str, progress: float, has_new: bool) -> bool:
        criterion = self._criterion(name)
        if criterion is None or len(self._returns) < criterion.min_lesson_length:
            return False
        if criterion.measure == PROGRESS:
            return progress > criterion.threshold
        if not has_new:
            return False
        mean = math.fsum(self._returns) / len(self._returns)
        if not criterion.signal_smoothing:
            return mean > criterion.threshold
        smoothed = (1 - NEW_SHARE) * self.smoothed[name] + NEW_SHARE * mean
        self.smoothed[name] = smoothed
        return min(mean, smoothed) > criterion.threshold


def lessons_of(entry: Any, where: str, name: str, call: DrawCustom) -> tuple[Lesson, ...]:
    """Returns the lessons of a parameter; see `sampler_of` for the arguments.

    Raises:
      ConfigError: If a key is missing, unknown or out of range; if a lesson but the last has no
        `until`, or the last one has it.
    """
    if not isinstance(entry, list) or not entry:
        raise ConfigError(
            f"{where} is {json.dumps(entry)}; expected a list of objects with value and until."
        )
    lessons = []
    for index, part in enumerate(entry):
        place = f"{where}.{index}"
        check_keys(part, ("value",), ("name", "until"), place)
        is_last = index == len(entry) - 1
        if is_last and "until" in part:
            raise ConfigError(f"{place} has the key 'until', but the last lesson never ends.")
        if not is_last and "until" not in part:
            raise ConfigError(f"{place} lacks the key 'until'; only the last lesson has none.")
        if not isinstance(title := part.get("name", ""), str):
            raise ConfigError(f"{place}.name is {json.dumps(title)}; expected a string.")
        value = sampler_of(part["value"], f"{place}.value", name, call)
        until = None if is_last else _criterion_of(part["until"], f"{place}.until")
        lessons.append(Lesson(value, until, title))
    _check_order(lessons, where)
    return tuple(lessons)


def _check_order(lessons: Sequence[Lesson], where: str) -> None:
    """Raises ConfigError for a lesson that progress has ended before it begins."""
    begun = 0.0  # share of the train steps when the lesson begins at the earliest
    for index, lesson in enumerate(lessons):
        end = lesson.until
        if end is None or end.measure != PROGRESS:
            continue
        if index and end.threshold <= begun and not end.min_lesson_length:
            raise ConfigError(
                f"{where}.{index}.until.threshold is {end.threshold}, but the lesson begins with "
                f"a progress above {begun}, so it would be skipped; expected ascending "
                "thresholds of progress, or a min_lesson_length."
            )
        begun = max(begun, end.threshold)


def _criterion_of(entry: Any, where: str) -> Criterion:
    check_keys(entry, ("measure", "threshold"), _OPTIONAL, where)
    measure, threshold = entry["measure"], entry["threshold"]
    if measure not in (REWARD, PROGRESS):
        hint = did_you_mean(str(measure), (REWARD, PROGRESS))
        raise ConfigError(f"{where}.measure is {json.dumps(measure)}.{hint}")
    number_of(threshold, f"{where}.threshold")
    if measure == PROGRESS and not 0 <= threshold < 1:
        raise ConfigError(
            f"{where}.threshold is {threshold}; expected a number in [0, 1), the share of the "
            "train steps that must be exceeded."
        )
    length = entry.get("min_lesson_length", 0)
    is_count = isinstance(length, int) and not isinstance(length, bool)
    if not is_count or not 0 <= length <= MOST_EPISODES:
        allowed = f"an integer from 0 to {MOST_EPISODES}: episodes of all workers"
        raise ConfigError(f"{where}.min_lesson_length is {json.dumps(length)}; expected {allowed}.")
    is_smoothed = entry.get("signal_smoothing", True)
    if not isinstance(is_smoothed, bool):
        raise ConfigError(
            f"{where}.signal_smoothing is {json.dumps(is_smoothed)}; expected true or false."
        )
    return Criterion(measure, threshold, length, is_smoothed)
