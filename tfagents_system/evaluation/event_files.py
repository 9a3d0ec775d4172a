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
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in _read_events(file):
            for entry in event.summary.value:
                if entry.WhichOneof("value") == "simple_value":
                    scalar = Scalar(event.step, entry.simple_value, event.wall_time)
                    known = newest.setdefault(entry.tag, {})
                    if event.step not in known or known[event.step].wall_time <= scalar.wall_time:
                        known[event.step] = scalar
    return {tag: sorted(known.values()) for tag, known in newest.items()}


def _read_events(file: pathlib.Path) -> Iterator[event_pb2.Event]:
    """Yields the events up to the first that a crash or a full disk has cut short."""
    content, position = file.read_bytes(), 0
    while position + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        begin = position + _LENGTH.size + _CHECKSUM_BYTES
        position = begin + length + _CHECKSUM_BYTES
        if position > len(content):
            return
        try:
            yield event_pb2.Event.FromString(content[begin : begin + length])
        except DecodeError:
            return
