"""Appends episodes to the CSV record, across restarts."""

import pathlib
import time
from collections.abc import Sequence

from tfagents_system.collection.csv_log import CsvLog
from tfagents_system.collection.rollouts import Episode
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.records import lesson_rows, number_rows
from tfagents_system.records.episode_rows import COLUMNS, read_rows


class EpisodeLog:
    """Appends one line per episode to `<kind>_<worker>.csv`.

    The numbers of `log_info` go to `info_<kind>_<worker>.csv`, one line per number, if there are
    any.
    """

    def __init__(self, folder: pathlib.Path, kind: str, worker_id: int):
        """Reads `env_step` from the file's last line, else 0. `kind` is collect or eval."""
        self._worker_id = worker_id
        path = folder / f"{kind}_{worker_id}.csv"
        self._episodes = CsvLog(path, COLUMNS, f"{kind} episodes")
        numbers = folder / f"{number_rows.PREFIX}{path.name}"
        self._numbers = CsvLog(numbers, number_rows.COLUMNS, f"numbers of {kind} episodes")
        rows = read_rows(path) if self._episodes.has_lines else ()
        self.env_step = max((row.env_step for row in rows), default=0)
        if not self._episodes.has_lines:
            self._begin()

    @OnlyReports("the record of episodes")
    def _begin(self) -> None:
        self._episodes.append([])

    @OnlyReports("the record of episodes")
    def append(self, episode: Episode, iteration: int, train_step: int, env_step: int) -> None:
        """Writes the lines of one episode."""
        success = "" if episode.success is None else int(episode.success)
        wall_time = f"{time.time():.3f}"
        place = self._worker_id, iteration, train_step, env_step
        episode_return = f"{episode.episode_return:.6g}"
        self._episodes.append([(*place, episode_return, episode.length, wall_time, success)])
        if episode.numbers:
            self._numbers.append(
                (*place, wall_time, name, f"{value:.6g}") for name, value in episode.numbers.items()
            )


class LessonLog:
    """Appends one line per collected episode, by which the learner ends lessons."""

    def __init__(self, folder: pathlib.Path, worker_id: int):
        """Writes nothing yet."""
        self._worker_id = worker_id
        path = folder / lesson_rows.file_name(worker_id)
        self._lines = CsvLog(path, lesson_rows.COLUMNS, "lessons of episodes")

    @OnlyReports("the record of lessons")
    def append(
        self, episode: Episode, train_step: int, env_step: int, lessons: Sequence[int]
    ) -> None:
        """Writes the line of an episode that began in `lessons`."""
        text = " ".join(map(str, lessons))
        place = self._worker_id, train_step, env_step, f"{time.time():.3f}"
        self._lines.append([(*place, repr(episode.episode_return), text)])
