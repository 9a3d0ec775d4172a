"""Decides in the learner, for all workers, which lesson of the curriculum is taught."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.settings.lessons import Lesson, LessonState
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import make_folder_durably, read_json, write_json_durably
from tfagents_system.records.lesson_rows import LessonRecord


class LessonOffice:
    """Ends lessons based on the episodes of all workers.

        office.decide(train_step)
        publisher.publish(train_step, ..., office.lessons)

    Only episodes that began in the current lessons count, so those under way when a lesson began
    do not. Each change is saved before workers hear of it, with the position up to which the record
    was read. A restarted learner reads on from there, so no episode is lost or counted twice, and a
    lesson that has begun is never undone.
    """

    def __init__(
        self,
        courses: Mapping[str, Sequence[Lesson]],
        path: pathlib.Path,
        record: LessonRecord,
        train_step: int,
        num_train_steps: int,
    ):
        """Continues with the lessons in the file `path`, if it exists.

        Args:
          courses: The lessons of each parameter.
          path: File of the lessons that have begun.
          record: The workers' episodes.
          train_step: Number of train steps done.
          num_train_steps: Number of train steps of the run.
        """
        self._courses, self._path, self._record = courses, path, record
        self._num_train_steps, self._decided_at = num_train_steps, train_step
        self._guard = SpaceGuard("lessons", path.parent)
        saved = _read(path)
        self._state = LessonState(courses, saved.get("lessons"), saved.get("smoothed"))
        record.places = dict(saved.get("read", {}))

    @property
    def lessons(self) -> tuple[int, ...]:
        """The current lesson of each parameter, from 0."""
        return tuple(self._state.lessons.values())

    @property
    def numbers(self) -> dict[str, int]:
        """The number of the current lesson, from 1, by parameter."""
        return {name: lesson + 1 for name, lesson in self._state.lessons.items()}

    @property
    def shown(self) -> str | None:
        """The current lessons in words; None if no parameter has any."""
        return ", ".join(map(self._shown, self._courses)) or None

    def decide(self, train_step: int) -> None:
        """Ends lessons that are over.

        Decides once per train step, so that a deterministic run does so between its turns.
        """
        if train_step <= self._decided_at or self._state.is_over:
            return
        self._decided_at = train_step
        progress, before = train_step / self._num_train_steps, self._state.lessons.copy()
        for row in self._record.read_new():
            if row.lessons == self.lessons:
                self._state.decide(progress, row.episode_return)
        while self._state.decide(progress):
            pass  # progress may be past the end of several lessons
        if changed := [name for name in before if self._state.lessons[name] != before[name]]:
            self._write_down()
            for name in changed:
                print(f"Lesson of {self._shown(name)} begins at train step {train_step}.",
                      flush=True)  # fmt: skip

    def _shown(self, name: str) -> str:
        course, lesson = self._courses[name], self._state.lessons[name]
        title = f" ({course[lesson].name})" if course[lesson].name else ""
        return f"{name} {lesson + 1} of {len(course)}{title}"

    def _write_down(self) -> None:
        with self._guard:
            make_folder_durably(self._path.parent)
            state = {
                "lessons": self._state.lessons,
                "smoothed": self._state.smoothed,
                "read": self._record.places,
            }
            write_json_durably(self._path, state)


def _read(path: pathlib.Path) -> Mapping[str, Any]:
    """Returns what was saved; nothing if the file is missing or damaged."""
    try:
        saved = read_json(path) or {}
        for part, kind in (("lessons", int), ("smoothed", float), ("read", int)):
            if not all(kind(value) >= 0 or kind is float for value in saved[part].values()):
                return {}
        return saved
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
