"""Records which batches a tracker already has, so that a later start continues there."""

import dataclasses
import json
import pathlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tfagents_system.core.display import without_secrets
from tfagents_system.core.state.files import append_whole, write_text_atomically
from tfagents_system.mirror.records import Batch

_Value = TypeVar("_Value")


class Progress:
    """The batches of a run in the order of sending, one per line of a file.

    A batch is added before it is sent. Only the tracker knows how many records have arrived: after
    a crash, it is asked about those after the first `num_arrived`.
    """

    def __init__(self, path: pathlib.Path, destination: str):
        """Reads the file; for another destination, begins a new one with a new `run_id`."""
        self._path = path
        header, *lines = _read_lines(path) or [{}]
        if "destination" in header:  # earlier versions wrote passwords
            header["destination"] = without_secrets(header["destination"])
        self._destination = destination
        if header.get("destination") != destination:
            self.begin_anew()
            return
        self.run_id: str = header["run_id"]
        self.num_arrived: int = header["num_arrived"]
        self.batches = [Batch(**line) for line in lines]
        self._write()

    def begin_anew(self) -> None:
        """Forgets all batches, for a new run of the tracker; it gets a new `run_id`."""
        self.run_id, self.num_arrived, self.batches = secrets.token_hex(8), 0, []
        self._write()

    def add(self, batch: Batch) -> None:
        """Appends a batch."""
        append_whole(self._path, _line(dataclasses.asdict(batch)).encode())
        self.batches.append(batch)

    def all_arrived(self) -> None:
        """Joins all batches to one, whose records have all arrived."""
        self.batches = [_merged(self.batches)]
        self.num_arrived = self.batches[0].num_records
        self._write()

    def _write(self) -> None:
        header = {
            "destination": self._destination,
            "run_id": self.run_id,
            "num_arrived": self.num_arrived,
        }
        lines = [header, *map(dataclasses.asdict, self.batches)]
        write_text_atomically(self._path, "".join(map(_line, lines)))


def _read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the complete lines; a crash may have cut the last one short."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def _line(value: object) -> str:
    return f"{json.dumps(value)}\n"


def _merged(batches: Sequence[Batch]) -> Batch:
    events: dict[str, Sequence[int]] = {}
    for file, (begin, end) in _items(batch.events for batch in batches):
        events[file] = (events.get(file, (begin, end))[0], end)
    videos = dict(_items(batch.videos for batch in batches))
    return Batch(sum(batch.num_records for batch in batches), events, videos)


def _items(mappings: Iterable[Mapping[str, _Value]]) -> Iterable[tuple[str, _Value]]:
    return (item for mapping in mappings for item in mapping.items())
