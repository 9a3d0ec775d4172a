"""What has been handed over to a tracker, so that a later start goes on from there."""

import dataclasses
import json
import pathlib
import secrets
from collections.abc import Iterable, Sequence

from tfagents_system.core.files import append_whole, write_text_atomically
from tfagents_system.mirror.records import Batch


class Progress:
    """The batches of a run in the order in which a tracker gets them: a line each in a file.

    A batch is added before it is handed over. How many of its records have arrived, only the
    tracker knows: after a crash, it is asked.
    """

    def __init__(self, path: pathlib.Path, destination: str):
        """Reads the file; begins a new one, with another `run_id`, for another destination."""
        self._path = path
        header, *lines = _read_lines(path) or [{}]
        if header.get("destination") != destination:
            header, lines = {"destination": destination, "run_id": secrets.token_hex(8)}, []
        self._header = header
        self.run_id: str = header["run_id"]
        self.batches = [Batch(**line) for line in lines]
        self._write()

    @property
    def num_records(self) -> int:
        """Of all batches."""
        return sum(batch.num_records for batch in self.batches)

    def add(self, batch: Batch) -> None:
        """Appends one."""
        append_whole(self._path, _line(dataclasses.asdict(batch)).encode())
        self.batches.append(batch)

    def merge(self) -> None:
        """Makes all batches one; only when all of their records have arrived."""
        if len(self.batches) > 1:
            self.batches = [_merged(self.batches)]
            self._write()

    def _write(self) -> None:
        lines = [self._header, *map(dataclasses.asdict, self.batches)]
        write_text_atomically(self._path, "".join(map(_line, lines)))


def _read_lines(path: pathlib.Path) -> list[dict]:
    """Returns the lines up to one that a crash has cut short."""
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


def _items(mappings: Iterable) -> Iterable:
    return (item for mapping in mappings for item in mapping.items())
