"""Keeps results of resumable benchmarks: a CSV file with a row for each run."""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any


def read_rows(path: pathlib.Path) -> list[dict[str, str]]:
    """Returns the rows so far; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append_row(path: pathlib.Path, header: Sequence[str], row: Sequence[Any]) -> None:
    """Prints a row and appends it to the file, whose first line is `header`."""
    print(*row, flush=True)
    rows = [row] if path.exists() else [header, row]
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(rows)
