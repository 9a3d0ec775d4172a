"""Reads TensorBoard files without TensorFlow."""

import pathlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2

_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4  # after the length, and after the record


class Scalar(NamedTuple):
    """One value of a tag."""

    step: int
    value: float
    wall_time: float  # unix, seconds


def read_scalars(folder: pathlib.Path) -> dict[str, list[Scalar]]:
    """Returns the values of each tag in the event files of `folder`, in order of step.

    Of several values for one step, as after a resume, the newest counts.
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
    """Yields each event with the position in bytes after it, up to the first that is cut short.

    That one a crash or a full disk has cut, or it is still being written: reading may go on there.

    Args:
      file: An event file.
      begin: Position after an event, to begin with the next one.
      end: Position after the last event to read; None for all there is.
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
