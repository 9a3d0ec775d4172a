"""Mirrors records to Weights & Biases: offline into files, unless WANDB_MODE is set."""

import os
import pathlib
import shutil
from collections.abc import Sequence

import wandb

from tfagents_system.core.state.files import read_json, write_json_atomically
from tfagents_system.mirror.progress import Progress
from tfagents_system.mirror.records import Description, Record, Video

FINISH_SECS = 15.0
_SETTINGS = wandb.Settings(
    console="off",
    silent=True,
    disable_git=True,
    disable_code=True,
    x_disable_stats=True,
    init_timeout=20.0,
    # Otherwise `init` waits for hours for an unreachable server.
    x_graphql_retry_max=2,
    x_graphql_retry_wait_min_seconds=1.0,
    x_graphql_retry_wait_max_seconds=2.0,
    x_graphql_timeout_seconds=10.0,
    finish_timeout=FINISH_SECS,
    finish_timeout_raises=True,
)


def destination() -> str:
    """Returns the destination from the package's variables."""
    entity, run_id = os.environ.get("WANDB_ENTITY"), os.environ.get("WANDB_RUN_ID")
    project = os.environ.get("WANDB_PROJECT", "sac")
    return " ".join(filter(None, (_mode(), entity, project, run_id)))


def _mode() -> str:
    return os.environ.get("WANDB_MODE", "offline")


class Wandb:
    """A run of W&B. Each start of the mirror adds an offline folder with the same run id.

    `wandb-core`, the package's own process, keeps up to 32 kB in memory. So records have only
    arrived when the run is closed; an offline folder that a crash has cut short is removed, and its
    records are written again into the next one. Online, the server tells how many records it has:
    record k is its step k.
    """

    def __init__(self, folder: pathlib.Path, progress: Progress, description: Description):
        """Connects; `folder` is the mirror's own.

        Raises:
          Exception: If W&B cannot be reached; of many types.
        """
        self._run_id, self._state = progress.run_id, folder / "arrived.json"
        state = read_json(self._state) or {}
        if state.get("run_id") != self._run_id:
            state = {"run_id": self._run_id, "num_records": 0, "open": None}
        if state["open"] is not None:
            shutil.rmtree(state["open"], ignore_errors=True)
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # no reports to W&B
        is_online = _mode() == "online"
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "sac"),
                id=os.environ.get("WANDB_RUN_ID", self._run_id),
                name=os.environ.get("WANDB_NAME", description.name),
                tags=[f"{name} {value[:40]}" for name, value in description.tags.items()],
                dir=os.environ.get("WANDB_DIR", str(folder)),
                mode=_mode(),
                resume="allow" if is_online else None,
                settings=_SETTINGS,
            )
        except Exception:
            wandb.teardown()  # otherwise the run would still be in use
            raise
        self.num_arrived: int = self._run.step if is_online else state["num_records"]
        self._given = self.num_arrived
        segment = pathlib.Path(self._run.dir).parent
        is_shown = is_online and self._run.url
        self.address: str = self._run.url if is_shown else str(segment.parent / "offline-run-*")
        self._write(None if is_online else str(segment), self.num_arrived)
        self._named: set[str] = set()
        self.describe(description)

    def describe(self, description: Description) -> None:
        """Replaces the settings and files."""
        self._run.config.update(dict(description.settings), allow_val_change=True)
        for file in description.files:
            copy = shutil.copy(file, self._run.dir)  # a link to the file could break
            self._run.save(copy, base_path=self._run.dir, policy="now")

    def send(self, first: int, records: Sequence[Record], may_be_there: bool) -> None:
        """Passes the records `first`, `first + 1` and so on to wandb-core."""
        for number, record in enumerate(records, first):
            if isinstance(record, Video):
                film = wandb.Video(str(record.path), format="mp4")
                row, axis = {record.name: film, "train_step": record.step}, "train_step"
            else:
                axis = record.axis
                row = {**record.scalars, axis: record.step, "_timestamp": record.wall_time}
            for name in row.keys() - self._named - {axis, "_timestamp"}:
                self._run.define_metric(name, step_metric=axis)
                self._named.add(name)
            self._run.log(row, step=number)
            self._given = number + 1

    def close(self, is_finished: bool) -> None:
        """Closes the run; then all records have arrived.

        Raises:
          Exception: If it takes longer than FINISH_SECS, as with an unreachable server.
        """
        self._run.finish()
        wandb.teardown()  # wandb-core may still be writing its file; it ends afterwards
        self._write(None, self._given)

    def _write(self, unfinished: str | None, num_records: int) -> None:
        state = {"run_id": self._run_id, "num_records": num_records, "open": unfinished}
        write_json_atomically(self._state, state)
