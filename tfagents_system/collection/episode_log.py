"""Appends episodes to the CSV record, across restarts."""

import csv
import io
import os
import pathlib
import time
from collections.abc import Sequence

from tfagents_system.collection.rollouts import Episode
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import append_whole
from tfagents_system.records.episode_rows import COLUMNS, read_rows


class EpisodeLog:
    """Appends one line per episode to `<kind>_<worker>.csv`.

    A line is written whole or not at all. Lines that a full disk rejects are written later.
    """

    def __init__(self, folder: pathlib.Path, kind: str, worker_id: int):
        """Reads `env_step` from the file's last line, else 0. `kind` is collect or eval."""
        self._worker_id = worker_id
        self._path = folder / f"{kind}_{worker_id}.csv"
        self._unwritten = b""  # complete lines
        self._guard = SpaceGuard(f"{kind} episodes", folder, lambda: len(self._unwritten))
        has_lines = _cut_after_last_line(self._path)
        rows = read_rows(self._path) if has_lines else ()
        self.env_step = max((row.env_step for row in rows), default=0)
        if not has_lines:
            self._write(COLUMNS)

    def append(self, episode: Episode, iteration: int, train_step: int, env_step: int) -> None:
        """Writes one line."""
        success = "" if episode.success is None else int(episode.success)
        self._write([
            self._worker_id, iteration, train_step, env_step, f"{episode.episode_return:.6g}",
            episode.length, f"{time.time():.3f}", success,
        ])  # fmt: skip

    @OnlyReports("the record of episodes")
    def _write(self, fields: Sequence[object]) -> None:
        line = io.StringIO()
        csv.writer(line).writerow(fields)
        self._unwritten += line.getvalue().encode()
        with self._guard:
            self._path.parent.mkdir(exist_ok=True)
            append_whole(self._path, self._unwritten)
            self._unwritten = b""


def _cut_after_last_line(path: pathlib.Path) -> bool:
    """Removes an incomplete last line, as after a crash; returns whether any line is left."""
    if not path.exists():
        return False
    num_bytes = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, num_bytes)
    return num_bytes > 0
