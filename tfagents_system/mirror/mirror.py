"""Mirrors the records of a run to a tracker, and continues after any failure."""

import contextlib
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tfagents_system.core.display import printable, without_secrets
from tfagents_system.core.state.mirror_addresses import write_address
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.mirror.progress import Progress
from tfagents_system.mirror.records import Batch, Description, Record, Source, describe

RETRY_SECS = 10.0


class Connection(Protocol):
    """A connection to a tracker's run: a Wandb or an Mlflow."""

    address: str  # where the tracker shows the run: an address, or files

    @property
    def num_arrived(self) -> int | None:
        """Number of records that have surely arrived; None: all but perhaps the last batch."""

    def describe(self, description: Description) -> None:
        """Replaces the settings and files."""

    def send(self, first: int, records: Sequence[Record], may_be_there: bool) -> None:
        """Sends the records `first`, `first + 1` and so on."""

    def close(self, is_finished: bool) -> None:
        """Closes the connection."""


class _Link(NamedTuple):
    """The state while a tracker is connected."""

    connection: Connection
    progress: Progress
    source: Source


class Mirror:
    """Sends records in batches. Never raises; retries after a failure."""

    def __init__(self, paths: ExperimentPaths, tracker: str):
        """Connects to nothing yet; `tracker` is wandb or mlflow."""
        self._paths, self._tracker = paths, tracker
        self._folder = paths.mirrors / tracker
        self._link: _Link | None = None
        self._description: Description | None = None
        self._pending: list[tuple[int, Batch]] = []  # to repeat; number of the first record
        self._retry_at = 0.0
        self.num_records = 0  # records that have been sent
        self.problem: str | None = None  # why the tracker does not accept records

    def advance(self, until: float) -> bool:
        """Sends new records; returns whether there are no more.

        Args:
          until: Monotonic time after which no new batch begins.
        """
        if time.monotonic() < self._retry_at:
            return False
        try:
            link = self._link or self._connect()
            while self._pending:
                self._send(link, *self._pending[0], is_repeated=True)
                self._pending.pop(0)
            while batch := link.source.next_batch():
                link.progress.add(batch)
                self._send(link, self.num_records, batch)
                if time.monotonic() > until:
                    return False
            description = describe(self._paths)
            if description != self._description:
                link.connection.describe(description)
                self._description = description
        except Exception as error:  # any exception of the tracker's package, the network, the disk
            self._failed(error)
            return False
        self.problem = None
        return True

    def retry_now(self) -> None:
        """Makes the next `advance` try at once, even right after a failure."""
        self._retry_at = 0.0

    def close(self, is_finished: bool) -> None:
        """Closes the connection; `is_finished` tells whether training is finished."""
        if self._link is None:
            return
        try:
            self._link.connection.close(is_finished)
            self._link.progress.all_arrived()
        except Exception as error:
            self._failed(error)
        self._link = None

    def _connect(self) -> _Link:
        # Imported here, because the packages take seconds, and only one may be installed.
        connect: Callable[[pathlib.Path, Progress, Description], Connection]
        if self._tracker == "wandb":
            from tfagents_system.mirror import to_wandb

            connect, destination = to_wandb.Wandb, to_wandb.destination()
        else:
            from tfagents_system.mirror import to_mlflow

            connect, destination = to_mlflow.Mlflow, to_mlflow.destination()
        self._folder.mkdir(parents=True, exist_ok=True)
        progress = Progress(self._folder / "progress.jsonl", destination)
        self._description = describe(self._paths)
        connection = connect(self._folder, progress, self._description)
        self._link = _Link(connection, progress, Source(self._paths, progress.batches))
        write_address(self._folder, connection.address)
        arrived = connection.num_arrived
        total, self._pending = 0, []
        for batch in progress.batches:
            if arrived is None or total + batch.num_records > arrived:
                self._pending.append((total, batch))
            total += batch.num_records
        if arrived is None:
            self._pending = self._pending[-1:] if total > progress.num_arrived else []
        self.num_records = total if arrived is None else min(arrived, total)
        return self._link

    def _send(self, link: _Link, first: int, batch: Batch, is_repeated: bool = False) -> None:
        records = link.source.read(batch)
        is_sure = link.connection.num_arrived is not None
        num_there = self.num_records - first if is_repeated and is_sure else 0
        may_be_there = is_repeated and not is_sure
        link.connection.send(first + num_there, records[num_there:], may_be_there)
        self.num_records = first + batch.num_records
        self.problem = None

    def _failed(self, error: Exception) -> None:
        shown = printable(without_secrets(f"{type(error).__name__}: {error}"))
        problem = " ".join(shown.split())[:200]
        if problem != self.problem:
            print(f"WARNING: {self._tracker} accepts nothing ({problem}). What it lacks is in "
                  f"{self._paths.root}; trying again.", flush=True)  # fmt: skip
        self.problem = problem
        self._retry_at = time.monotonic() + RETRY_SECS
        if self._link is not None:
            with contextlib.suppress(Exception):
                self._link.connection.close(False)
        self._link = None
