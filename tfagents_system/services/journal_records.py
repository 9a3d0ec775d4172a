"""The file format of journals: records with checksums, and older files without."""

import pathlib
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

SUFFIX = ".records"
SUFFIX_UNCHECKED = ".rows"  # of versions before checksums


class Reading(NamedTuple):
    """The contents of a journal's files."""

    records: NDArray[Any]  # complete records
    num_damaged: int  # damaged records, which are left out
    is_unchecked: bool  # whether a part has no checksums


class RecordFormat:
    """Fixed-size records: place, number, completes_item, the columns, and their CRC-32.

    records = format.empty(3)      # fill these
    path.write_bytes(format.seal(records))
    format.read(path).records      # those with a correct checksum
    """

    def __init__(self, columns: Sequence[tf.TensorSpec]):
        """`columns` are specs of vectors; `names` has their names and sizes."""
        self.names = [f"{spec.dtype.name}x{spec.shape[0]}" for spec in columns]
        # `place` in this stream differs from `number` if another stream has sent the row before.
        fields: list[Any] = [("place", "<i8"), ("number", "<i8"), ("completes_item", "?")]
        for name, spec in zip(self.names, columns, strict=True):
            fields.append((name, spec.dtype.as_numpy_dtype, (spec.shape[0],)))
        self._unchecked = np.dtype(fields)
        self._record = np.dtype([*fields, ("checksum", "<u4")])

    @property
    def num_bytes(self) -> int:
        """Size of a record in bytes."""
        return self._record.itemsize

    def empty(self, count: int) -> NDArray[Any]:
        """Returns `count` empty records."""
        return np.empty(count, self._record)

    def seal(self, records: NDArray[Any]) -> bytes:
        """Returns the file content of these records, with checksums."""
        records["checksum"] = self._checksums(records)
        return records.tobytes()

    def read(self, path: pathlib.Path) -> Reading:
        """Reads a file with SUFFIX, and an older version's file next to it.

        Skips an incomplete record at the end, whose write was cut short.
        """
        records = self._records_of(path, self._record)
        is_whole = self.are_whole(records)
        unchecked = self._records_of(path.with_suffix(SUFFIX_UNCHECKED), self._unchecked)
        if len(unchecked):
            older = self.empty(len(unchecked))
            for name in self._unchecked.names or ():
                older[name] = unchecked[name]
            whole = np.concatenate([older, records[is_whole]])
        else:
            whole = records if is_whole.all() else records[is_whole]
        return Reading(whole, int(len(records) - is_whole.sum()), len(unchecked) > 0)

    def read_from(self, path: pathlib.Path, begin: int) -> NDArray[Any]:
        """Returns the complete records from number `begin` on, whole or damaged."""
        with path.open("rb") as file:
            file.seek(begin * self.num_bytes)
            content = file.read()
        return np.frombuffer(content, self._record, len(content) // self.num_bytes)

    def are_whole(self, records: NDArray[Any]) -> NDArray[Any]:
        """Returns which records [N] have a correct checksum."""
        return records["checksum"] == self._checksums(records)

    @staticmethod
    def remove(path: pathlib.Path) -> None:
        """Removes a journal's files."""
        for suffix in (SUFFIX, SUFFIX_UNCHECKED):
            path.with_suffix(suffix).unlink(missing_ok=True)

    def _records_of(self, path: pathlib.Path, record: np.dtype[Any]) -> NDArray[Any]:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = b""
        return np.frombuffer(content, record, len(content) // record.itemsize)

    def _checksums(self, records: NDArray[Any]) -> NDArray[Any]:
        if not len(records):
            return np.empty(0, np.uint32)
        size, checked = self.num_bytes, self._unchecked.itemsize
        content = records.view(np.uint8).data
        starts = range(0, len(content), size)
        return np.array([zlib.crc32(content[at : at + checked]) for at in starts], np.uint32)
