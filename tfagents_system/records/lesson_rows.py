"""Reads the workers' records of the lessons of their episodes, line by line as they arrive."""

import math
import pathlib
import re
from typing import NamedTuple

COLUMNS = (
    "worker",
    "train_step",
    "env_step",  # env step, time and return are the episode's
    "wall_time",  # unix, seconds
    "return",
    "lessons",  # of each parameter with lessons, from 0, in the order of the JSON config: 2 0
)
LARGEST_RETURN = 1e100  # sums of it are finite
_FILE = re.compile("lessons_[0-9]+[.]csv")
_LESSONS = re.compile("[0-9]{1,9}( [0-9]{1,9})*")


class LessonRow(NamedTuple):
    """One line of the record: one episode."""

    wall_time: float
    lessons: tuple[int, ...]
    episode_return: float  # finite


def file_name(worker_id: int) -> str:
    """Returns the name of a worker's record."""
    return f"lessons_{worker_id}.csv"


class LessonRecord:
    """The records of all workers; each line is read once.

    record = LessonRecord(paths.episodes)
    rows = record.read_new()   # and nothing the next time, unless there are new lines
    """

    def __init__(self, folder: pathlib.Path):
        """Reads nothing yet."""
        self._folder = folder
        self.places: dict[str, int] = {}  # bytes that have been read, by file; may be set

    def read_new(self) -> list[LessonRow]:
        """Returns the new complete lines of all workers, by time; damaged ones are left out."""
        rows = []
        for path in sorted(self._folder.glob("lessons_*.csv")):
            if not _FILE.fullmatch(path.name):
                continue
            for line in self._new_lines(path):
                if row := _row_of(line):
                    rows.append(row)
        return sorted(rows)

    def _new_lines(self, path: pathlib.Path) -> list[str]:
        begin = self.places.get(path.name, 0)
        if path.stat().st_size <= begin:
            return []
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
        end = content.rfind(b"\n") + 1
        self.places[path.name] = begin + end
        return content[:end].decode(errors="replace").splitlines()


def _row_of(line: str) -> LessonRow | None:
    fields = line.split(",")
    if len(fields) != len(COLUMNS) or not _LESSONS.fullmatch(fields[5]):
        return None
    try:
        wall_time, episode_return = float(fields[3]), float(fields[4])
    except ValueError:
        return None
    if not math.isfinite(wall_time) or not abs(episode_return) <= LARGEST_RETURN:
        return None
    return LessonRow(wall_time, tuple(map(int, fields[5].split())), episode_return)
