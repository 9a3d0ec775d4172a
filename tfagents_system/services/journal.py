"""The journal of what a worker has sent, from which lost items are sent again."""

import contextlib
import pathlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.state.files import append_whole, write_bytes_durably
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.services.journal_records import (
    SUFFIX,
    Reading,
    RecordFormat,
)
from tfagents_system.services.replay_files import (
    NUMBERS_PER_STREAM,
    StoredNumbers,
    first_number,
)


class Stream(NamedTuple):
    """The stream of rows that one start of a worker sends."""

    worker_id: int
    number: int  # claimed, unique in the experiment: core/state/incarnation.py


class NumberedRow(NamedTuple):
    """One row on its way to the replay server."""

    columns: Sequence[NDArray[Any]]  # packed
    completes_item: bool
    number: int  # also the number of the item that it completes; see replay_files.py


class Checkpoints(NamedTuple):
    """The contents of the two newest checkpoints."""

    newest: StoredNumbers
    older: StoredNumbers
    gone: Collection[Stream]  # their workers ended before the newest checkpoint


def streams_with_journals(folder: pathlib.Path) -> set[Stream]:
    """Returns the streams with journals in `folder`."""
    name = re.compile(r"worker_(\d{1,6})_stream_(\d{1,7})_\w+\.(?:records|rows)")
    names = (name.fullmatch(path.name) for path in folder.glob("worker_*"))
    return {Stream(int(name[1]), int(name[2])) for name in names if name}


class Journal:
    """Numbers the rows of a stream, and keeps them on disk until two checkpoints have them.

        rows = journal.append(columns_and_flags)   # before they are sent
        lost = journal.reconcile(checkpoints)       # after each checkpoint; send these again

    The file survives the worker, the replay server and both at once; another stream then takes it
    over, of the worker's next start or of another worker. Rows that are sent again keep their
    numbers: if a worker was wrongly taken for gone, its late rows are recognized as duplicates.
    Rows beyond `max_bytes`, or without space on the disk, count as unprotected and are sent
    anyway. Not thread-safe.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        stream: Stream,
        columns: Sequence[tf.TensorSpec],
        rows_per_item: int,
        max_bytes: int,
        fence: Fence,
        log: Callable[[str], None] = print,
    ):
        """Makes the stream's file.

        Args:
          folder: Folder of the files of all streams; made if missing.
          stream: A new stream, of which this is the only writer.
          columns: Specs of the packed columns, which are vectors; with `rows_per_item` part of the
            file's name, so that a file of another layout is never read.
          rows_per_item: From the items' layout.
          max_bytes: Maximum size of the file.
          fence: Fence of this start of the worker.
          log: Receives a line for the first unprotected row, and for damage.
        """
        self._rows_per_item = rows_per_item
        self._max_bytes = max_bytes
        self._fence = fence
        self._log = log
        self._format = RecordFormat(columns)
        self._folder = folder
        self._stream = stream
        self._path = self._path_of(stream)
        folder.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        self._size = 0
        self._next_place = first_number(stream.number)
        self.num_recovered = 0  # items sent again
        self.num_unprotected = 0  # rows
        self.num_damaged = 0  # rows that were skipped when items were sent again

    def append(self, rows: Sequence[tuple[Sequence[NDArray[Any]], bool]]) -> list[NumberedRow]:
        """Numbers new rows (columns, completes_item) and writes them to the file."""
        if not rows:
            return []
        columns, completes_item = zip(*rows, strict=True)
        places = range(self._next_place, self._next_place + len(rows))
        self._next_place += len(rows)
        records = self._format.empty(len(rows))
        records["place"] = records["number"] = places
        records["completes_item"] = completes_item
        for name, column in zip(self._format.names, zip(*columns, strict=True), strict=True):
            records[name] = np.concatenate(column).reshape(len(rows), -1)
        self._write(records)
        return list(map(NumberedRow, columns, completes_item, places))

    def reconcile(self, checkpoints: Checkpoints, num_unordered: int) -> list[NumberedRow]:
        """Returns lost rows; the caller must send them before anything else.

        Drops rows that both newest checkpoints have, or that a full table has removed. Takes over
        the lost rows of streams that are gone. Call it between episodes.

        Args:
          checkpoints: The newest checkpoints.
          num_unordered: Maximum of rows in flight, which the server may insert in any order.

        Raises:
          SupersededError: If a later start of the worker has claimed; nothing has changed.
        """
        try:
            return self._reconcile(checkpoints, num_unordered)
        except OSError as error:  # the disk is full or fails; try again at the next checkpoint
            self._log(f"Journal {self._path} cannot be renewed: {error}")
            return []

    def _reconcile(self, checkpoints: Checkpoints, num_unordered: int) -> list[NumberedRow]:
        newest, older, gone = checkpoints
        records, num_damaged, _ = self._read(self._stream)
        place, is_item = records["place"], self._ends_whole_item(records)
        is_stored = newest.contains(records["number"])
        is_removed = place < newest.first_left(self._same_worker(self._stream, gone))
        # Items are inserted in the order of their places, except within `num_unordered`: a missing
        # one, with a much higher one present, was there and has been lost or removed.
        is_passed = place <= newest.last(self._stream.number) - num_unordered
        is_lost = is_item & is_passed & ~is_stored & ~is_removed
        is_settled = is_stored & older.contains(records["number"])
        kept = self._select(records, is_item & ~is_lost & ~is_settled & ~is_removed)
        lost = self._select(records, is_lost)
        known = records["number"][records["completes_item"]]
        for stream in sorted(gone):
            inherited, num_damaged_there = self._lost_by(stream, checkpoints, known)
            num_damaged += num_damaged_there
            known = np.concatenate([known, inherited["number"][inherited["completes_item"]]])
            lost = np.concatenate([lost, inherited])
        # Its own rows get new numbers, because the table removes in the order of arrival.
        is_own = lost["number"] // NUMBERS_PER_STREAM == self._stream.number
        lost["place"] = np.arange(self._next_place, self._next_place + len(lost))
        lost["number"] = np.where(is_own, lost["place"], lost["number"])
        content = self._format.seal(np.concatenate([kept, lost]))
        self._fence.check()
        self._next_place += len(lost)  # even if the write fails: it may have reached the disk
        # At once, because a kill or power failure in between would lose them.
        write_bytes_durably(self._path, content)
        for stream in gone:
            with contextlib.suppress(OSError):  # then the next checkpoint finds all of it
                self._format.remove(self._path_of(stream))
        self._size = len(content)
        self.num_damaged += num_damaged
        self.num_recovered += int(lost["completes_item"].sum())
        return [
            NumberedRow(
                [record[name] for name in self._format.names], *record[["completes_item", "number"]]
            )
            for record in lost
        ]

    def _path_of(self, stream: Stream) -> pathlib.Path:
        layout = f"{'_'.join(self._format.names)}x{self._rows_per_item}"
        name = f"worker_{stream.worker_id}_stream_{stream.number}_{layout}{SUFFIX}"
        return self._folder / name

    def _same_worker(self, stream: Stream, gone: Collection[Stream]) -> list[int]:
        """Returns the streams of the same worker, from `stream` on."""
        known = {self._stream, stream, *gone}
        return [s.number for s in known if s.worker_id == stream.worker_id and s >= stream]

    def _lost_by(
        self, stream: Stream, checkpoints: Checkpoints, known: NDArray[Any]
    ) -> tuple[NDArray[Any], int]:
        """Returns the rows that only the journal of a stream that is gone has.

        Leaves out rows older than everything in a full table, whether they were stored or not. As
        the stream sends no more, rows are older if everything in the table is of later streams, or
        has come since the checkpoint before while nothing of this stream came. The second value is
        the number of damaged rows.
        """
        newest, older, gone = checkpoints
        records, num_damaged, _ = self._read(stream)
        number = records["number"]
        first_left = max(newest.oldest, newest.first_left(self._same_worker(stream, gone)))
        is_outlived = newest.has_replaced(older) and not newest.last(stream.number)
        is_removed = (records["place"] < first_left) | is_outlived
        is_lost = ~newest.contains(number) & ~is_removed & ~np.isin(number, known)
        return self._select(records, self._ends_whole_item(records) & is_lost), num_damaged

    def _ends_whole_item(self, records: NDArray[Any]) -> NDArray[Any]:
        """Returns at which rows an item ends whose rows are here without a gap, [N]."""
        place, before = records["place"], self._rows_per_item - 1
        is_whole = np.zeros(len(place), bool)
        is_whole[before:] = place[before:] - place[: len(place) - before] == before
        return records["completes_item"] & is_whole

    def _select(self, records: NDArray[Any], is_item: NDArray[Any]) -> NDArray[Any]:
        """Returns the rows of the items that end at `is_item`, with only these ends marked."""
        is_part = is_item.copy()
        for distance in range(1, self._rows_per_item):
            is_part[:-distance] |= is_item[distance:]
        selected = records[is_part]
        selected["completes_item"] = is_item[is_part]
        return selected

    def _read(self, stream: Stream) -> Reading:
        """Returns the complete records of a stream; none if it has no file.

        The items of a stream that is gone may have another layout. After a long silence, another
        worker may have taken over this stream's file.
        """
        path = self._path_of(stream)
        reading = self._format.read(path)
        if reading.num_damaged:
            count = reading.num_damaged + len(reading.records)
            self._log(f"Journal {path}: {reading.num_damaged} of {count} records are damaged and "
                      "left out.")  # fmt: skip
        if reading.is_unchecked:
            self._log(f"Journal {path}: an older version has written it, without checksums; its "
                      "records are taken as they are.")  # fmt: skip
        return reading

    def _write(self, records: NDArray[Any]) -> None:
        """Appends complete records or nothing."""
        content = self._format.seal(records)
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
