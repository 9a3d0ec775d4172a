"""Passes rounds of a deterministic run, collected with one policy each, to the learner."""

import contextlib
import queue
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import reverb
from numpy.typing import NDArray

from tfagents_system.core.process.background import start_thread
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.replay import (
    EXPERIENCE_TABLE,
    ROUNDS_TABLE,
    STREAM_TABLE,
)
from tfagents_system.services.replay_files import first_number, number_of
from tfagents_system.services.stored_items import StoredItem
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.variables import VariablePublisher, VariableReader

ROUND_TABLES = (EXPERIENCE_TABLE, STREAM_TABLE)  # the tables of an adder
SERVER_TIMEOUT_SECS = 5.0
POLL_SECS = 0.002
SAMPLES_AT_ONCE = 10_000  # of the experience table, between looks at the time: about a second


class RoundPublisher:
    """The worker's side: reports complete rounds."""

    def __init__(self, client: reverb.Client):
        """Sends no request yet."""
        self._publisher = VariablePublisher(client, [], table=ROUNDS_TABLE)

    def publish(self, train_step: int, stream: int, num_sent_again: int) -> bool:
        """Reports the round that was collected with a train step's policy; see VariablePublisher.

        All its items are confirmed. A message has no tickets, and their place has what changes when
        the worker has sent lost items again: `num_sent_again`, which begins anew in each `stream`.
        """
        return self._publisher.publish(train_step, first_number(stream) + num_sent_again)


class Round(NamedTuple):
    """Items for the learner's buffer, in order."""

    columns: Sequence[NDArray[Any]]  # [N, rows, size]
    is_whole: bool  # they are all items of the replay buffer, if any, and replace the learner's


class RoundReader:
    """The learner's side: waits for complete rounds and takes their items in order.

    taken = rounds.take(train_step=0, timeout_secs=2)   # None: not complete yet
    rounds.close()
    """

    def __init__(self, address: str, reader: SampleReader):
        """Starts a thread that asks for the newest complete round."""
        self._client = reverb.Client(address)
        self._reader = reader
        self._complete = VariableReader(address, [], period_secs=0.5, table=ROUNDS_TABLE)
        self._stats = 0, 0  # of the experience table, when reading it began
        self._stored: dict[int, reverb.ReplaySample] = {}  # its items read so far, by key
        self._has_read = False
        self._sent_again: int | None = None  # by the last message; see RoundPublisher
        self._taken: set[int] = set()  # numbers of items

    def take(self, train_step: int, timeout_secs: float) -> Round | None:
        """Returns all items since the last call.

        Waits until the round of `train_step`'s policy, or of a later one, is complete; returns None
        if it is not within `timeout_secs`. After a restart of the learner or of the run, the stream
        lacks what is stored: then the first call returns the whole table, and returns None while it
        has not read all of it. So does a call after the worker has sent lost items again: they have
        new numbers, and only the table tells which of them were taken before.
        """
        deadline = time.monotonic() + timeout_secs
        while (complete := self._complete.latest) is None or complete.train_step < train_step:
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECS)
            self._complete.refresh(timeout_secs)
        if complete.num_tickets != self._sent_again:
            self._sent_again = complete.num_tickets
            self._has_read, self._stored, self._taken = False, {}, set()
        is_whole = not self._has_read
        try:
            num_new, _ = table_stats(self._client, STREAM_TABLE, SERVER_TIMEOUT_SECS)
            self._has_read = self._has_read or self._read_table(num_new, deadline)
        except TimeoutError:
            return None
        if not self._has_read:
            return None
        samples = self._sample(STREAM_TABLE, num_new)
        if self._stored:  # these are among them
            samples, self._stored = [*self._stored.values()], {}
        items = self._not_taken(samples)
        columns = [
            np.array([item.columns[index] for item in items], spec.dtype.as_numpy_dtype).reshape(
                [len(items), *spec.shape]
            )
            for index, spec in enumerate(self._reader.columns)
        ]
        return Round(columns, is_whole and bool(items))

    def _read_table(self, num_new: int, deadline: float) -> bool:
        """Samples the experience table until each item has come, or until `deadline`.

        Goes on where an earlier call has ended, unless the table has changed. Returns whether it
        has all items, or needs none because the stream, of `num_new`, has them.
        """
        stats = table_stats(self._client, EXPERIENCE_TABLE, SERVER_TIMEOUT_SECS)
        if stats != self._stats:
            self._stats, self._stored = stats, {}
        num_stored, _ = stats
        if num_stored <= num_new:
            return True
        while len(self._stored) < num_stored:
            samples = self._sample(EXPERIENCE_TABLE, min(num_stored, SAMPLES_AT_ONCE))
            self._stored |= {sample.info.key: sample for sample in samples}
            if time.monotonic() >= deadline:
                break
        return len(self._stored) == num_stored

    def _not_taken(self, samples: Sequence[reverb.ReplaySample]) -> list[StoredItem]:
        """Returns each item that was not taken before, by number, and notes that it is now.

        Of items without a number (see replay_files.py), nothing is known.
        """
        items = []
        for sample in samples:
            number = number_of(sample.info.priority) or 0
            if number not in self._taken:
                items.append(StoredItem(number, sample.data))
            if number:
                self._taken.add(number)
        return sorted(items, key=lambda item: item.number)

    def close(self) -> None:
        """Ends the thread, or gives up after a second."""
        self._complete.close()

    def _sample(self, table: str, count: int) -> list[reverb.ReplaySample]:
        """Samples `count` items, or fewer if the server is restarted meanwhile."""
        arrived: queue.SimpleQueue[reverb.ReplaySample] = queue.SimpleQueue()

        def sample() -> None:  # else it waits without limit for lost items
            with contextlib.suppress(reverb.errors.ReverbError, RuntimeError, StopIteration):
                for item in self._client.sample(table, count, emit_timesteps=False):
                    arrived.put(item)

        if count:
            start_thread(sample, f"sample of {table}")
        items: list[reverb.ReplaySample] = []
        try:
            while len(items) < count:
                items.append(arrived.get(timeout=SERVER_TIMEOUT_SECS))
        except queue.Empty:
            pass  # the worker's journal sends it again
        return items
