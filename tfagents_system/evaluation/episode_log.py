"""The CSV record of episodes, appended across restarts."""

import csv
import pathlib
import time

from tfagents_system.evaluation.episode_rows import COLUMNS, read_rows
from tfagents_system.evaluation.rollouts import Episode


class EpisodeLog:
    """Appends one line per episode to `<kind>_<worker>.csv`; a line is written whole."""

    def __init__(self, folder: pathlib.Path, kind: str, worker_id: int):
        """Opens the file; `env_step` is that of its last line, or 0. `kind` is collect or eval."""
        folder.mkdir(exist_ok=True)
        self._worker_id = worker_id
        path = folder / f"{kind}_{worker_id}.csv"
        rows = read_rows(path) if path.exists() else ()
        self.env_step = max((row.env_step for row in rows), default=0)
        written = path.read_bytes() if path.exists() else b""
        self._file = path.open("a", newline="", buffering=1)
        self._writer = csv.writer(self._file)
        if not written:
            self._writer.writerow(COLUMNS)
        elif not written.endswith(b"\n"):
            self._file.write("\n")  # ends a line that was cut short, as by a full disk

    def append(self, episode: Episode, iteration: int, train_step: int, env_step: int) -> None:
        """Writes one line."""
        success = "" if episode.success is None else int(episode.success)
        self._writer.writerow([
            self._worker_id, iteration, train_step, env_step, f"{episode.episode_return:.6g}",
            episode.length, f"{time.time():.3f}", success,
        ])  # fmt: skip
