"""Reads TensorBoard files without TensorFlow."""

import pathlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2

_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4  # bytes of the checksums after the length and after the record


class Scalar(NamedTuple):
    """One value of a tag."""

    step: int
    value: float
    wall_time: float  # unix, seconds


def read_scalars(folder: pathlib.Path) -> dict[str, list[Scalar]]:
    """Returns the values of each tag in the event files of `folder`, in order of step.

    If a step has several values, as after a resume, the newest one counts.
    """
    newest: dict[str, dict[int, Scalar]] = {}
    for file in sorted(filter(pathlib.Path.is_file, folder.glob("events.out.tfevents.*"))):
        for event, _ in read_events(file):
            for entry in event.summary.value:
                if entry.WhichOneof("value") == "simple_value":
                    scalar = Scalar(event.step, entry.simple_value, event.wall_time)
                    known = newest.setdefault(entry.tag, {})
                    if event.step not in known or known[event.step].wall_time <= scalar.wall_time:
                        known[event.step] = scalar
    return {tag: sorted(known.values()) for tag, known in newest.items()}


def read_events(
    file: pathlib.Path, begin: int = 0, end: int | None = None
) -> Iterator[tuple[event_pb2.Event, int]]:
    """Yields each event with the position in bytes after it, up to the first incomplete one.

    An incomplete event was cut by a crash or a full disk, or is still being written: a later call
    may continue there.

    Args:
      file: An event file.
      begin: Position of the first event to read.
      end: Position after the last event to read; None: the end of the file.
    """
    with file.open("rb") as opened:
        opened.seek(begin)
        content = opened.read(-1 if end is None else end - begin)
    position = 0
    while position + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        first = position + _LENGTH.size + _CHECKSUM_BYTES
        position = first + length + _CHECKSUM_BYTES
        if position > len(content):
            return
        try:
            event = event_pb2.Event.FromString(content[first : first + length])
        except DecodeError:
            return
        yield event, begin + position
