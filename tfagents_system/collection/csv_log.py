"""Appends lines to a CSV file, across restarts and full disks."""

import csv
import io
import os
import pathlib
from collections.abc import Iterable, Sequence

from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import append_whole


class CsvLog:
    """Appends lines to a file that begins with a header.

    A line is written whole or not at all. Lines that a full disk rejects are written later.
    """

    def __init__(self, path: pathlib.Path, columns: Sequence[str], what: str):
        """Removes an incomplete last line, as after a crash; writes nothing yet.

        Args:
          path: The file; its folder is made if needed.
          columns: The header.
          what: Name of the lines, for messages of a full disk.
        """
        self._path, self._columns = path, columns
        self._unwritten = b""  # complete lines
        self._guard = SpaceGuard(what, path.parent, lambda: len(self._unwritten))
        self.has_lines = _cut_after_last_line(path)

    def append(self, rows: Iterable[Sequence[object]]) -> None:
        """Writes lines, and before the first one the header."""
        if not self.has_lines:
            rows = [self._columns, *rows]
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        self.has_lines = True
        self._unwritten += text.getvalue().encode()
        with self._guard:
            self._path.parent.mkdir(exist_ok=True)
            append_whole(self._path, self._unwritten)
            self._unwritten = b""


def _cut_after_last_line(path: pathlib.Path) -> bool:
    """Removes an incomplete last line; returns whether any line is left."""
    if not path.exists():
        return False
    num_bytes = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, num_bytes)
    return num_bytes > 0
