"""Mirrors the records of a run to a tracker, and continues after any failure."""

import contextlib
import time
from typing import Any

from tfagents_system.core.display import printable, without_secrets
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.progress import Progress
from tfagents_system.mirror.records import Batch, Description, Source, describe

RETRY_SECS = 10.0


class Mirror:
    """Hands records over, batch by batch. It never raises, it tries again.

    A connection, a Wandb or an Mlflow, has `num_arrived`: how many records the tracker has for
    sure, or None if that is all but perhaps the last batch; `send(first, records, may_be_there)`,
    `describe(description)` and `close(is_finished)`.
    """

    def __init__(self, paths: ExperimentPaths, tracker: str):
        """Connects to nothing yet; `tracker` is wandb or mlflow."""
        self._paths, self._tracker = paths, tracker
        self._folder = paths.mirrors / tracker
        self._connection: Any = None
        self._progress: Progress | None = None
        self._source: Source | None = None
        self._description: Description | None = None
        self._pending: list[tuple[int, Batch]] = []  # number of the first record; to be repeated
        self._retry_at = 0.0
        self.num_records = 0  # that have been handed over
        self.problem: str | None = None  # why the tracker takes nothing

    def advance(self, until: float) -> bool:
        """Hands over what is new; returns whether there is no more.

        Args:
          until: Monotonic time after which no further batch is begun.
        """
        if time.monotonic() < self._retry_at:
            return False
        try:
            if self._connection is None:
                self._connect()
            while self._pending:
                self._send(*self._pending[0], is_repeated=True)
                self._pending.pop(0)
            while batch := self._source.next_batch():
                self._progress.add(batch)
                self._send(self.num_records, batch)
                if time.monotonic() > until:
                    return False
            description = describe(self._paths)
            if description != self._description:
                self._connection.describe(description)
                self._description = description
        except Exception as error:  # of the tracker's package, the network, the disk
            self._failed(error)
            return False
        self.problem = None
        return True

    def retry_now(self) -> None:
        """Lets the next `advance` try at once, however short ago the last failure was."""
        self._retry_at = 0.0

    def close(self, is_finished: bool) -> None:
        """Ends the connection; `is_finished` says whether training is."""
        if self._connection is None:
            return
        try:
            self._connection.close(is_finished)
            self._progress.all_arrived()
        except Exception as error:
            self._failed(error)
        self._connection = None

    def _connect(self) -> None:
        # Here, because the packages take seconds, and who has one need not have the other.
        if self._tracker == "wandb":
            from tfagents_system.mirror import to_wandb

            kind, destination = to_wandb.Wandb, to_wandb.destination()
        else:
            from tfagents_system.mirror import to_mlflow

            kind, destination = to_mlflow.Mlflow, to_mlflow.destination()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._progress = Progress(self._folder / "progress.jsonl", destination)
        self._source = Source(self._paths, self._progress.batches)
        self._description = describe(self._paths)
        self._connection = kind(self._folder, self._progress.run_id, self._description)
        arrived = self._connection.num_arrived
        total, self._pending = 0, []
        for batch in self._progress.batches:
            if arrived is None or total + batch.num_records > arrived:
                self._pending.append((total, batch))
            total += batch.num_records
        if arrived is None:
            self._pending = self._pending[-1:] if total > self._progress.num_arrived else []
        self.num_records = total if arrived is None else min(arrived, total)

    def _send(self, first: int, batch: Batch, is_repeated: bool = False) -> None:
        records = self._source.read(batch)
        is_sure = self._connection.num_arrived is not None
        num_there = self.num_records - first if is_repeated and is_sure else 0
        may_be_there = is_repeated and not is_sure
        self._connection.send(first + num_there, records[num_there:], may_be_there)
        self.num_records = first + batch.num_records
        self.problem = None

    def _failed(self, error: Exception) -> None:
        shown = printable(without_secrets(f"{type(error).__name__}: {error}"))
        problem = " ".join(shown.split())[:200]
        if problem != self.problem:
            print(f"WARNING: {self._tracker} takes nothing ({problem}). What it has not got is in "
                  f"{self._paths.root}; trying again.", flush=True)  # fmt: skip
        self.problem = problem
        self._retry_at = time.monotonic() + RETRY_SECS
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close(False)
        self._connection = None
