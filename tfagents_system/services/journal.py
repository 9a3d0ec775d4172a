"""A worker's journal of what it has sent, from which lost items are sent again."""

import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_system.core.files import append_whole, write_bytes_atomically
from tfagents_system.services.replay_files import StoredNumbers

RESTART_GAP = 2**20  # more numbers than rows that a journal can have missed


class NumberedRow(NamedTuple):
    """One row of a worker's stream on its way to the replay server."""

    columns: Sequence[np.ndarray]  # packed
    completes_item: bool
    number: int  # of its worker, ascending; that of the item, too, which it completes


class Checkpoints(NamedTuple):
    """What the two newest checkpoints hold of a worker."""

    newest: StoredNumbers
    older: StoredNumbers
    # Likewise of workers that the run has no longer, in a checkpoint of after their end.
    gone: Mapping[int, StoredNumbers]


def journal_owners(folder: pathlib.Path) -> set[int]:
    """Returns the numbers of the workers that have journals in `folder`."""
    names = (re.match(r"worker_(\d+)_", path.name) for path in folder.glob("worker_*.rows"))
    return {int(name[1]) for name in names if name}


class Journal:
    """Numbers a worker's rows, and keeps them on disk until two checkpoints hold them.

        rows = journal.append(columns_and_flags)   # before they are sent
        lost = journal.reconcile(checkpoints)       # after each checkpoint; to be sent again

    The file survives the worker, the replay server and both at once. Rows beyond `max_bytes`, or
    for which the disk has no space, are counted as unprotected and sent all the same.
    Not thread-safe.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        worker_id: int,
        columns: Sequence[tf.TensorSpec],
        rows_per_item: int,
        max_bytes: int,
        log: Callable[[str], None] = print,
    ):
        """Opens or makes the worker's file.

        Args:
          folder: Holds the files of all workers; is made.
          worker_id: Of the only writer.
          columns: Specs of the packed columns, vectors; with `rows_per_item` part of the file's
            name, so that a file of another layout is never read.
          rows_per_item: Of the items' layout.
          max_bytes: Largest size of the file.
          log: Receives a line for the first row that is left unprotected.
        """
        self._rows_per_item = rows_per_item
        self._max_bytes = max_bytes
        self._log = log
        self._names = [f"{spec.dtype.name}x{spec.shape[0]}" for spec in columns]
        fields: list[Any] = [("number", "<i8"), ("completes_item", "?")]
        for name, spec in zip(self._names, columns, strict=True):
            fields.append((name, spec.dtype.as_numpy_dtype, (spec.shape[0],)))
        self._record = np.dtype(fields)
        self._folder = folder
        self._path = self._path_of(worker_id)
        folder.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        whole_records = self._path.stat().st_size // self._record.itemsize
        self._size = whole_records * self._record.itemsize
        os.truncate(self._path, self._size)  # a kill may have cut the last record short
        records = self._read(self._path)
        self._next_number = int(records["number"][-1]) + RESTART_GAP if len(records) else 1
        self.num_recovered = 0  # items sent again
        self.num_unprotected = 0  # rows

    def append(self, rows: Sequence[tuple[Sequence[np.ndarray], bool]]) -> list[NumberedRow]:
        """Numbers (columns, completes_item) of new rows and writes them down."""
        if not rows:
            return []
        number = self._next_number
        self._next_number += len(rows)
        columns, completes_item = zip(*rows, strict=True)
        numbers = range(number, self._next_number)
        records = np.empty(len(rows), self._record)
        records["number"] = numbers
        records["completes_item"] = completes_item
        for name, column in zip(self._names, zip(*columns, strict=True), strict=True):
            records[name] = np.concatenate(column).reshape(len(rows), -1)
        self._write(records)
        return list(map(NumberedRow, columns, completes_item, numbers))

    def reconcile(self, checkpoints: Checkpoints, num_unordered: int) -> list[NumberedRow]:
        """Returns what has been lost, under new numbers; the caller sends it before anything else.

        Drops what the newest two checkpoints both hold, and what a full table has removed. Takes
        over what the workers that are gone have lost. Must be called between episodes.

        Args:
          checkpoints: The newest ones.
          num_unordered: Rows that may be on their way at a time; the server may insert them in any
            order.
        """
        newest, older, gone = checkpoints
        records = self._read(self._path)
        number, is_item = records["number"], self._ends_whole_item(records)
        is_lost = is_item & newest.were_lost(number, num_unordered)
        is_settled = newest.contains(number) & older.contains(number)
        is_kept = is_item & ~is_lost & ~is_settled & ~newest.were_removed(number)
        inherited = [self._lost_by(worker_id, stored) for worker_id, stored in gone.items()]
        kept = self._select(records, is_kept)
        lost = np.concatenate([self._select(records, is_lost), *inherited])
        if newest.last >= self._next_number:  # this file was lost
            self._next_number = newest.last + RESTART_GAP
        lost["number"] = np.arange(self._next_number, self._next_number + len(lost))
        try:
            # At once: after a kill in between they would be lost, or sent twice.
            write_bytes_atomically(self._path, np.concatenate([kept, lost]).tobytes())
        except OSError as error:  # the disk is full: the next checkpoint brings another chance
            self._log(f"Journal {self._path} cannot be renewed: {error}")
            return []
        for worker_id in gone:  # a kill just before would have these sent twice
            self._path_of(worker_id).unlink(missing_ok=True)
        self._size = records.itemsize * (len(kept) + len(lost))
        self._next_number += len(lost)
        self.num_recovered += int(lost["completes_item"].sum())
        return [
            NumberedRow(
                [record[name] for name in self._names], *record[["completes_item", "number"]]
            )
            for record in lost
        ]

    def _path_of(self, worker_id: int) -> pathlib.Path:
        layout = "_".join(self._names)
        return self._folder / f"worker_{worker_id}_{layout}x{self._rows_per_item}.rows"

    def _lost_by(self, worker_id: int, stored: StoredNumbers) -> np.ndarray:
        """Returns the rows in the journal of a worker that is gone which are not stored."""
        try:
            records = self._read(self._path_of(worker_id))
        except FileNotFoundError:  # its items had another layout
            return np.empty(0, self._record)
        number = records["number"]
        is_lost = ~stored.contains(number) & ~stored.were_removed(number)
        return self._select(records, self._ends_whole_item(records) & is_lost)

    def _ends_whole_item(self, records: np.ndarray) -> np.ndarray:
        """Returns [N] whether an item ends there, and its rows are here without a gap."""
        number, before = records["number"], self._rows_per_item - 1
        is_whole = np.zeros(len(number), bool)
        is_whole[before:] = number[before:] - number[: len(number) - before] == before
        return records["completes_item"] & is_whole

    def _select(self, records: np.ndarray, is_item: np.ndarray) -> np.ndarray:
        """Returns the rows of the items that end where `is_item`, and marks only these."""
        is_part = is_item.copy()
        for distance in range(1, self._rows_per_item):
            is_part[:-distance] |= is_item[distance:]
        selected = records[is_part]
        selected["completes_item"] = is_item[is_part]
        return selected

    def _read(self, path: pathlib.Path) -> np.ndarray:
        content = path.read_bytes()
        return np.frombuffer(content, self._record, len(content) // self._record.itemsize)

    def _write(self, records: np.ndarray) -> None:
        """Appends whole records or nothing."""
        content = records.tobytes()
        if self._size + len(content) <= self._max_bytes:
            try:
                append_whole(self._path, content)
                self._size += len(content)
                return
            except OSError as error:
                reason = str(error)
        else:
            reason = f"it holds {self._size:,} of at most {self._max_bytes:,} bytes"
        if not self.num_unprotected:
            self._log(f"Journal {self._path}: {reason}. Steps are sent all the same; if the replay "
                      "server crashes before its next checkpoint, they are lost.")  # fmt: skip
        self.num_unprotected += len(records)
