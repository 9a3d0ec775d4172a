"""Reads the CSV record of the numbers that `log_info` names, even a damaged one."""

import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

ACTION_SHARE = "action_share"  # prefix of the names of shares of env steps, which end with a choice
PREFIX = "info_"  # of a file's name, followed by the name of the record of its episodes
COLUMNS = (
    "worker",
    "iteration",
    "train_step",
    "env_step",  # these four and the time are the episode's
    "wall_time",  # unix, seconds
    "name",  # such as distance_mean
    "value",  # finite
)
_COUNT = re.compile("[0-9]{1,15}")


class NumberRow(NamedTuple):
    """One line of the record: one number of one episode."""

    train_step: int
    name: str
    value: float  # finite


def read_numbers(path: pathlib.Path) -> Iterator[NumberRow]:
    """Yields the complete lines of a file, without those cut short by a crash or a full disk."""
    with path.open(errors="replace") as file:
        for line in file:
            fields = line.rstrip("\n").split(",")
            if len(fields) != len(COLUMNS) or not _COUNT.fullmatch(fields[2]):
                continue
            try:
                row = NumberRow(int(fields[2]), fields[5], float(fields[6]))
            except ValueError:
                continue
            if row.name and math.isfinite(row.value):
                yield row
