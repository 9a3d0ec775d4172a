"""Reads and writes the files of a Reverb checkpoint without a server.

Reverb draws an item's key at random and does not tell it to the writer. So an item's priority,
which uniform sampling ignores, is its number (`number_of`). The numbers of a stream (one start of a
worker) lie between those of the streams before and after (`first_number`), so they are unique in a
run, unless an item has arrived twice. Items without a journal have the number 0.

A column for the number would cost at least 13 % of a sample; for real priorities, a second table of
the same items is cheaper: docs/reliability.md has the figures.
"""

import dataclasses
import os
import pathlib
import shutil
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2

from tfagents_system.core.state.files import temporary_name

ITEMS, TABLES = "items.tfrecord", "tables.tfrecord"
CHECKPOINT_FILES = (ITEMS, TABLES, "chunks.tfrecord", "DONE")  # the files of a complete checkpoint
NUMBERS_PER_STREAM = 2**32  # rows; the numbers of 2**21 streams are exact in a priority, a float64


def first_number(stream: int) -> int:
    """Returns the number of the first row of a stream (core/state/incarnation.py)."""
    return stream * NUMBERS_PER_STREAM + 1


def stream_of(number: int) -> int:
    """Returns the stream of a row."""
    return (number - 1) // NUMBERS_PER_STREAM


def empty_reverb_root(root: pathlib.Path, incarnation: int) -> pathlib.Path:
    """Empties the folder in `root` that belongs to this start's Reverb, and returns it.

    Also removes those of earlier starts; an earlier start that still lives then fails to save, as
    it should.

    After a save, Reverb deletes everything there except the entry whose name sorts last; names are
    times. If another entry sorts later (the clock was set back, a user's file), it would delete the
    new checkpoint and report it as saved.
    """
    folder = root / ".reverb" / f"{incarnation:06d}"
    for path in folder.parent.glob("*"):
        if not (path.name.isdecimal() and int(path.name) > incarnation):
            _remove_at_once(path)
    folder.mkdir(parents=True, exist_ok=True)  # a starting server may have been faster
    return folder


def _remove_at_once(path: pathlib.Path) -> None:
    """Removes a file or folder atomically, as another process may be moving it."""
    removed = temporary_name(path)
    try:
        os.replace(path, removed)
    except OSError:  # missing, or the disk does not answer; the next start tries again
        return
    if removed.is_dir() and not removed.is_symlink():
        shutil.rmtree(removed, ignore_errors=True)
    else:
        removed.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class StoredNumbers:
    """The numbers of the items in a checkpoint, as ranges [first, last]."""

    ranges: NDArray[Any]  # [N, 2] int64, ascending, disjoint
    is_full: bool  # whether the table has removed what was inserted before its oldest item
    # By stream, the highest number of an earlier checkpoint that a full table has removed.
    removed: Mapping[int, int] = dataclasses.field(default_factory=dict)
    discarded: frozenset[int] = frozenset()  # discarded numbers, which count as present

    @property
    def oldest(self) -> int:
        """The lowest number in a full table, before which ended streams are removed; else 0."""
        return int(self.ranges[0, 0]) if self.is_full and len(self.ranges) else 0

    def contains(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns whether each of `numbers` [N] is stored or discarded."""
        is_discarded = np.isin(numbers, [*self.discarded])
        if not len(self.ranges):
            return is_discarded
        index = np.searchsorted(self.ranges[:, 0], numbers, side="right") - 1
        return is_discarded | ((index >= 0) & (numbers <= self.ranges[index, 1]))

    def last(self, stream: int) -> int:
        """Returns the highest stored number of a stream; 0 if there is none."""
        ranges = self._of_stream(stream)
        return int(ranges[-1, 1]) if len(ranges) else 0

    def first_left(self, streams: Iterable[int]) -> int:
        """Returns the number before which a full table has removed everything of a worker.

        0 if it has removed nothing. `streams` are all known streams of the worker.
        """
        streams = list(streams)
        firsts = [int(r[0, 0]) for stream in streams if len(r := self._of_stream(stream))]
        first = min(firsts, default=0) if self.is_full else 0
        return max(first, *(self.removed.get(stream, -1) + 1 for stream in streams), 0)

    def has_replaced(self, older: "StoredNumbers") -> bool:
        """Returns whether a full table has removed everything that an earlier checkpoint had."""
        are_full = self.is_full and older.is_full
        return are_full and not self.contains(older.ranges.reshape(-1)).any()

    def removed_after(self, older: "StoredNumbers") -> dict[int, int]:
        """Returns `removed` of this checkpoint, which follows `older`."""
        removed = dict(older.removed)
        for stream in {stream_of(first) for first, _ in older.ranges} if self.is_full else ():
            ranges, left = older._of_stream(stream), self._of_stream(stream)
            if len(left):
                first = left[0, 0]
                ranges = np.minimum(ranges[ranges[:, 0] < first], first - 1)
            if len(ranges):
                removed[stream] = max(removed.get(stream, 0), int(ranges[-1, 1]))
        return removed

    def _of_stream(self, stream: int) -> NDArray[Any]:
        bounds = first_number(stream), first_number(stream + 1)
        begin, end = np.searchsorted(self.ranges[:, 0], bounds)
        return self.ranges[begin:end]


NOTHING = StoredNumbers(np.empty([0, 2], np.int64), is_full=False)


def check_is_whole(folder: pathlib.Path) -> None:
    """Raises ValueError if a file of a checkpoint is missing or cut short.

    On a full disk, Reverb reports such a checkpoint as complete, and cannot load it.
    """
    for name in CHECKPOINT_FILES:
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name} is missing")
    for path in sorted(folder.glob("*.tfrecord")):
        decompressor = zlib.decompressobj()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                decompressor.decompress(block)
        if not decompressor.eof:
            raise ValueError(f"{path} is cut short")


def describe_items(
    folder: pathlib.Path,
    table: str,
    stride: int = 1,
    older: StoredNumbers = NOTHING,
    discarded: Collection[int] = (),
) -> dict[str, Any]:
    """Describes the items of `table` in a checkpoint as JSON for a manifest; see `stored_numbers`.

    Reads all items. An item stands for its own number and the `stride` - 1 before it, the rows that
    only it refers to. `older` has the numbers of the checkpoint before, `discarded` the numbers of
    items that must not come back.
    """
    items = _items(folder, table)
    numbers = [number for item in items if (number := number_of(item.priority))]
    is_full = len(items) >= read_table(folder, table).max_size
    stored = StoredNumbers(_as_ranges(np.unique(np.array(numbers, np.int64)), stride), is_full)
    removed = stored.removed_after(older)
    return {
        "is_full": is_full,
        "ranges": stored.ranges.tolist(),
        "removed": sorted(removed.values()),
        "discarded": sorted(discarded),
    }


def stored_numbers(description: Mapping[str, Any]) -> StoredNumbers:
    """Returns the numbers from a description by `describe_items`."""
    ranges = np.array(description["ranges"], np.int64).reshape(-1, 2)
    removed = description.get("removed", ())  # missing in older versions
    by_stream = {stream_of(number): number for number in removed}
    discarded = frozenset(description.get("discarded", ()))
    return StoredNumbers(ranges, description["is_full"], by_stream, discarded)


class WrongItems(NamedTuple):
    """Keys of items to remove."""

    repeated: list[int]  # duplicates: an earlier item has the same number
    unnumbered: list[int]  # of which nothing can be said
    discarded: list[int]


def wrong_items(
    folder: pathlib.Path, table: str, discarded: Collection[int] = frozenset()
) -> WrongItems:
    """Returns the items of a checkpoint to remove; reads all items.

    `discarded` are numbers of items that were removed for good and may have come back.
    """
    seen, wrong = set(), WrongItems([], [], [])
    for item in _items(folder, table):
        number = number_of(item.priority)
        if number is None:
            wrong.unnumbered.append(item.key)
        elif number in discarded:
            wrong.discarded.append(item.key)
        elif number and number in seen:
            wrong.repeated.append(item.key)
        seen.add(number)
    return wrong


def neighbours(
    folder: pathlib.Path, table: str, keys: Collection[int], distance: int
) -> dict[int, int]:
    """Returns (key, number) of the items `keys`, and of items with numbers within `distance`.

    Items without a number have no neighbours.
    """
    items = {
        _signed(item.key): number
        for item in _items(folder, table)
        if (number := number_of(item.priority)) is not None
    }
    found = np.array([number for key, number in items.items() if key in keys and number])
    near = {n for number in found for n in range(number - distance + 1, number + distance)}
    return {key: number for key, number in items.items() if key in keys or number in near}


def _signed(key: int) -> int:
    """Returns a key as TensorFlow's int64."""
    return key - 2**64 if key >= 2**63 else key


def number_of(priority: float) -> int | None:
    """Returns the number of an item, 0 if it has none; None if no worker of a run has sent it."""
    is_one = 0 <= priority < 2**53 and priority == int(priority)
    return int(priority) if is_one else None


def _items(folder: pathlib.Path, table: str) -> list[Any]:
    """Returns the PrioritizedItems of `table`, oldest first."""
    items = read_messages(folder / ITEMS, schema_pb2.PrioritizedItem)
    return [item for item in items if item.table == table]


def _as_ranges(numbers: NDArray[Any], stride: int) -> NDArray[Any]:
    """Returns ascending `numbers` [N], each with the `stride` - 1 before it, as ranges [M, 2]."""
    if not len(numbers):
        return np.empty([0, 2], np.int64)
    breaks = np.flatnonzero(np.diff(numbers) != stride)
    first = numbers[np.r_[0, breaks + 1]] - (stride - 1)
    return np.stack([first, numbers[np.r_[breaks, -1]]], axis=1)


def read_messages(path: pathlib.Path, message_type: Any) -> Iterator[Any]:
    """Yields the messages of a compressed TFRecord file; its generation's checksum is known."""
    records = zlib.decompress(path.read_bytes())
    position = 0
    while position < len(records):
        (length,) = struct.unpack_from("<Q", records, position)
        begin = position + 8 + 4  # the length and its checksum
        yield message_type.FromString(records[begin : begin + length])
        position = begin + length + 4


def _write(path: pathlib.Path, messages: Iterable[Any]) -> None:
    with tf.io.TFRecordWriter(str(path), options="ZLIB") as writer:
        for message in messages:
            writer.write(message.SerializeToString())


def read_table(folder: pathlib.Path, table: str) -> Any:
    """Returns the PriorityTableCheckpoint of `table`: its limits and counts."""
    messages = read_messages(folder / TABLES, checkpoint_pb2.PriorityTableCheckpoint)
    return next(message for message in messages if message.table_name == table)


def copy_with_table(source: pathlib.Path, target: pathlib.Path, changed: Any) -> None:
    """Copies one table of a checkpoint, with another PriorityTableCheckpoint.

    Reverb rejects a checkpoint with a table that the server lacks, so other tables are left out. If
    the table's new `max_size` is smaller than its content, the oldest items are left out. Unchanged
    files are hard links.
    """
    target.mkdir()
    for path in source.iterdir():
        if path.name not in (TABLES, ITEMS):
            os.link(path, target / path.name)
    of_table = _items(source, changed.table_name)
    num_dropped = max(0, len(of_table) - changed.max_size)
    changed.rate_limiter.delete_count += num_dropped
    _write(target / TABLES, [changed])
    _write(target / ITEMS, of_table[num_dropped:])
