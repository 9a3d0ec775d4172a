"""Reads the CSV record of episodes, whatever has become of it."""

import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

COLUMNS = (
    "worker",
    "iteration",
    "train_step",
    "env_step",  # of this worker, at the end of the episode
    "return",
    "length",
    "wall_time",  # unix, seconds
    "success",  # 0, 1, or empty where the environment does not report it
)
_COUNT = re.compile("[0-9]{1,15}")
_LARGEST_RETURN = 1e100  # sums and squares of it are still numbers


class EpisodeRow(NamedTuple):
    """What the line of one episode says."""

    train_step: int
    env_step: int
    episode_return: float


def read_rows(path: pathlib.Path) -> Iterator[EpisodeRow]:
    """Yields the whole lines of a file; leaves out what a crash or a full disk has cut short.

    Not with the csv module: no column is ever quoted, and a quotation mark in a damaged line would
    swallow all lines after it.
    """
    with path.open(errors="replace") as file:
        for line in file:
            fields = line.rstrip("\n").split(",")
            if len(fields) != len(COLUMNS):
                continue
            train_step, env_step, episode_return = fields[2:5]
            value = _finite_float(episode_return)
            if _COUNT.fullmatch(train_step) and _COUNT.fullmatch(env_step) and value is not None:
                yield EpisodeRow(int(train_step), int(env_step), value)


def _finite_float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= _LARGEST_RETURN else None
