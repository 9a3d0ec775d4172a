"""The CSV record of episodes, appended across restarts."""

import csv
import pathlib
import time

from tfagents_system.evaluation.rollouts import Episode

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


class EpisodeLog:
    """Appends one line per episode to `<kind>_<worker>.csv`; a line is written whole."""

    def __init__(self, folder: pathlib.Path, kind: str, worker_id: int):
        """Opens the file; `env_step` is that of its last line, or 0. `kind` is collect or eval."""
        folder.mkdir(exist_ok=True)
        self._worker_id = worker_id
        path = folder / f"{kind}_{worker_id}.csv"
        self.env_step = _last_env_step(path)
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


def _last_env_step(path: pathlib.Path) -> int:
    if not path.exists():
        return 0
    with path.open(newline="") as file:
        steps = [row["env_step"] for row in csv.DictReader(file)]
    return max((int(step) for step in steps if step and step.isdigit()), default=0)
