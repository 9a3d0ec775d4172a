"""Reads the CSV record of episodes, even a damaged one."""

import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

COLUMNS = (
    "worker",
    "iteration",
    "train_step",
    "env_step",  # the worker's count at the end of the episode
    "return",
    "length",
    "wall_time",  # unix, seconds
    "success",  # 0, 1, or empty if the environment does not report it
)
_COUNT = re.compile("[0-9]{1,15}")


class EpisodeRow(NamedTuple):
    """One line of the record: one episode."""

    train_step: int
    env_step: int
    episode_return: float  # any float, even NaN
    wall_time: float  # unix, seconds; finite
    success: bool | None = None  # None if the environment does not report it


def episode_files(folder: pathlib.Path, kind: str) -> list[pathlib.Path]:
    """Returns the records of a kind, "collect" or "eval", of all workers and evaluators.

    Other files are skipped: a sync client's copies, for example, would count episodes twice.
    """
    name = re.compile(rf"{kind}_(evaluator_)?[0-9]+\.csv")
    return sorted(path for path in folder.glob(f"{kind}_*.csv")
                  if name.fullmatch(path.name) and path.is_file())  # fmt: skip


def read_rows(path: pathlib.Path) -> Iterator[EpisodeRow]:
    """Yields the complete lines of a file, without those cut short by a crash or a full disk.

    Does not use the csv module: no column is quoted, and a quotation mark in a damaged line would
    swallow all lines after it.
    """
    with path.open(errors="replace") as file:
        for line in file:
            fields = line.rstrip("\n").split(",")
            if len(fields) != len(COLUMNS):
                continue
            train_step, env_step, episode_return, _, wall_time, success = fields[2:8]
            if not (_COUNT.fullmatch(train_step) and _COUNT.fullmatch(env_step)):
                continue
            try:
                row = EpisodeRow(
                    int(train_step), int(env_step), float(episode_return), float(wall_time),
                    {"0": False, "1": True}.get(success.strip()),
                )  # fmt: skip
            except ValueError:
                continue
            if math.isfinite(row.wall_time):
                yield row
