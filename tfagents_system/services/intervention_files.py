"""Files of the samples with an intervention: workers write them, the learner reads them.

Only a stream's own worker writes its file, each row once and before the row is sent, and nothing
ever removes one. So whatever is killed and whatever is sent again, each sample is in there once.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.state.files import append_whole
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.journal import Stream
from tfagents_system.services.journal_records import SUFFIX, RecordFormat
from tfagents_system.services.slot_rows import Row


class InterventionFile:
    """Keeps the samples of one stream of rows in which a person has acted.

        file.append(rows)   # before they are sent

    The samples are those that learners find in the items: of a block, those whose first action was
    an intervention; of sequences, those with one anywhere. A record is a row of such a sample, with
    its place in the stream; `completes_item` marks rows at which a sample ends. Not thread-safe.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        stream: Stream,
        codec: Codec,
        layout: ItemLayout,
        log: Callable[[str], None] = print,
    ):
        """Makes no file before the first intervention.

        Args:
          folder: Folder of the files of all streams; made if missing.
          stream: A new stream, of which this is the only writer.
          codec: Codec of a row.
          layout: Layout of the items.
          log: Receives a line when the disk takes no more.
        """
        self._layout, self._log = layout, log
        self._format = RecordFormat(codec.columns)
        kind = _kind(self._format, layout)
        self._path = folder / f"worker_{stream.worker_id}_stream_{stream.number}_{kind}"
        self._recent: list[Row] = []  # the newest, which may be part of the next item
        self._next_place = 0
        self._first_unwritten = 0  # rows before this place are written, or not needed
        self.num_not_kept = 0  # rows for which the disk had no space

    def append(self, rows: Sequence[Row]) -> None:
        """Writes those of the stream's next `rows` that belong to the samples."""
        first_place = self._next_place - len(self._recent)
        num_recent, known = len(self._recent), [*self._recent, *rows]
        self._next_place += len(rows)
        self._recent = known[max(0, len(known) - self._layout.rows + 1) :]
        if not any(row.is_intervention for row in known):
            return
        is_part, is_end = np.zeros(len(known), bool), np.zeros(len(known), bool)
        for end in range(num_recent, len(known)):
            for begin in self._samples_of_item(known, end) if known[end].completes_item else ():
                is_part[begin : begin + self._layout.window] = True
                is_end[begin + self._layout.window - 1] = True
        is_part[: max(0, self._first_unwritten - first_place)] = False
        if is_part.any():
            places = np.flatnonzero(is_part)
            self._first_unwritten = first_place + int(places[-1]) + 1
            self._write([known[place] for place in places], first_place + places, is_end[places])

    def _samples_of_item(self, rows: Sequence[Row], end: int) -> Iterator[int]:
        """Yields where the samples begin of the item whose last row is at `end`."""
        layout = self._layout
        num_actions = layout.length if layout.is_sequence else 1
        first = end + 1 - layout.rows
        for begin in range(first, first + layout.samples):
            action = begin + layout.frame_stack
            if any(row.is_intervention for row in rows[action : action + num_actions]):
                yield begin

    def _write(
        self, rows: Sequence[Row], places: NDArray[np.intp], is_end: NDArray[np.bool_]
    ) -> None:
        records = self._format.empty(len(rows))
        records["place"] = records["number"] = places
        records["completes_item"] = is_end
        columns = zip(*(row.columns for row in rows), strict=True)
        for name, column in zip(self._format.names, columns, strict=True):
            records[name] = np.concatenate(column).reshape(len(rows), -1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append_whole(self._path, self._format.seal(records))
        except OSError as error:
            if not self.num_not_kept:
                self._log(f"{self._path}: {error}. Env steps with an intervention go to the replay "
                          "buffer, but are not kept for good.")  # fmt: skip
            self.num_not_kept += len(rows)


class InterventionReader:
    """Reads what the files of all streams have in addition since the last look.

    for columns, starts in reader.new_samples(): ...
    """

    def __init__(
        self, folder: pathlib.Path, reader: SampleReader, log: Callable[[str], None] = print
    ):
        """Reads nothing yet.

        Args:
          folder: Folder of the files; may be missing.
          reader: Of the items of which the samples are.
          log: Receives a line for each file with damage, or that cannot be read.
        """
        self._folder, self._reader, self._log = folder, reader, log
        self._format = RecordFormat(reader.codec.columns)
        self._num_read: dict[pathlib.Path, int] = {}  # records of each file
        self._faulty: set[pathlib.Path] = set()  # of which a line was logged

    def new_samples(self) -> Iterator[tuple[list[NDArray[Any]], NDArray[np.intp]]]:
        """Yields rows, columns [R, size], and the first rows of samples."""
        for path in sorted(self._folder.glob(f"worker_*_{_kind(self._format, self._layout)}")):
            try:
                found = self._new_samples_of(path)
            except OSError as error:  # the disk does not answer; the next look tries again
                self._tell(path, str(error))
                continue
            if found is not None:
                yield found

    @property
    def _layout(self) -> ItemLayout:
        return self._reader.layout

    def _new_samples_of(
        self, path: pathlib.Path
    ) -> tuple[list[NDArray[Any]], NDArray[np.intp]] | None:
        num_read = self._num_read.get(path, 0)
        if path.stat().st_size // self._format.num_bytes <= num_read:
            return None
        before = self._layout.window - 1  # rows that a sample may share with those read before
        begin = max(0, num_read - before)
        records = self._format.read_from(path, begin)
        self._num_read[path] = begin + len(records)
        is_new = np.arange(begin, begin + len(records)) >= num_read
        is_whole = self._format.are_whole(records)
        if not is_whole.all():
            self._tell(path, f"{np.sum(~is_whole)} of {len(records)} records are damaged, and "
                       "their samples left out")  # fmt: skip
        records, is_new = records[is_whole], is_new[is_whole]
        ends = np.flatnonzero(records["completes_item"] & is_new)
        starts = (ends - before)[ends >= before]
        starts = starts[records["place"][starts + before] - records["place"][starts] == before]
        if not len(starts):
            return None
        return [records[name] for name in self._format.names], starts

    def _tell(self, path: pathlib.Path, what: str) -> None:
        if path not in self._faulty:
            self._faulty.add(path)
            self._log(f"{path}: {what}.")


def _kind(record_format: RecordFormat, layout: ItemLayout) -> str:
    """Returns the end of the names of files whose samples have this layout."""
    return f"{'_'.join(record_format.names)}x{layout.window}{SUFFIX}"
