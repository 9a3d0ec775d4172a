"""Reads new checkpoints for a worker, and finds the journals that it takes over."""

import time

from tfagents_system.core.state.generations import read_manifests
from tfagents_system.core.state.liveness import LivingPrograms
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.patience import is_transient
from tfagents_system.services.journal import Checkpoints, Stream, streams_with_journals
from tfagents_system.services.replay_files import NOTHING, StoredNumbers, stored_numbers

PERIOD_SECS = 2.0  # between checks


class CheckpointWatch:
    """Watches for new checkpoints on behalf of one stream.

    Streams of earlier starts of its worker count as gone: a start that still lives ends itself. If
    another worker has not reported for `silent_secs`, which is longer than any env step may take,
    the first worker that works takes over its streams.
    """

    def __init__(self, paths: ExperimentPaths, stream: Stream, silent_secs: float):
        """Reads nothing yet."""
        self._paths = paths
        self._stream = stream
        self._silent_secs = silent_secs
        self._others = LivingPrograms(paths, _program(stream))
        self._saved_at, self._look_at = None, 0.0

    def look(self) -> Checkpoints | None:
        """Returns the contents of the two newest checkpoints after each new one, else None."""
        if time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + PERIOD_SECS
        try:
            manifests = [m for m in read_manifests(self._paths.checkpoints) if "stored" in m]
        except OSError as error:
            if not is_transient(error):
                raise
            return None  # the disk does not answer; the next check may succeed
        if not manifests or manifests[0]["saved_at"] == self._saved_at:
            return None
        self._saved_at = manifests[0]["saved_at"]
        newest, older, *_ = [*(stored_numbers(m["stored"]) for m in manifests), NOTHING]
        return Checkpoints(newest, older, self._gone(newest))

    def _gone(self, newest: StoredNumbers) -> set[Stream]:
        streams = streams_with_journals(self._paths.journals)
        # A checkpoint with items of this start was made after the end of earlier starts.
        is_after = newest.last(self._stream.number) > 0
        mine = {s for s in streams if s.worker_id == self._stream.worker_id and s < self._stream}
        others = {s for s in streams if s.worker_id != self._stream.worker_id}
        silent = {s for s in others if self._others.silent_secs(_program(s)) >= self._silent_secs}
        is_first = all(
            int(name.removeprefix("worker_")) > self._stream.worker_id
            for name in self._others.working()
        )
        return (mine if is_after else set()) | (silent if is_first else set())


def _program(stream: Stream) -> str:
    return f"worker_{stream.worker_id}"
