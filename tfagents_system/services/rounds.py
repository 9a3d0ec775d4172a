"""Passes rounds of a deterministic run, collected with one policy each, to the learner."""

import contextlib
import queue
import time
from collections.abc import Sequence
from typing import Any

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
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.variables import VariablePublisher, VariableReader

ROUND_TABLES = (EXPERIENCE_TABLE, STREAM_TABLE)  # the tables of an adder
SERVER_TIMEOUT_SECS = 5.0
POLL_SECS = 0.002


def round_publisher(client: reverb.Client) -> VariablePublisher:
    """Returns the worker's side: `publish(train_step)` reports a complete round.

    That round was collected with that train step's policy, and all its items are confirmed.
    """
    return VariablePublisher(client, [], table=ROUNDS_TABLE)


class RoundReader:
    """The learner's side: waits for complete rounds and takes their items in order.

    items = rounds.take(train_step=0, timeout_secs=2)   # None: not complete yet
    rounds.close()
    """

    def __init__(self, address: str, reader: SampleReader):
        """Starts a thread that asks for the newest complete round."""
        self._client = reverb.Client(address)
        self._reader = reader
        self._complete = VariableReader(address, [], period_secs=0.5, table=ROUNDS_TABLE)
        self._has_taken = False

    def take(self, train_step: int, timeout_secs: float) -> Sequence[NDArray[Any]] | None:
        """Returns all items since the last call, in order: columns [N, rows, size].

        Waits until the round of `train_step`'s policy, or of a later one, is complete; returns None
        if it is not within `timeout_secs`. For a restarted learner, the stream has only what the
        earlier one has left: then the first call also returns a sample of the whole table, of the
        table's size.
        """
        deadline = time.monotonic() + timeout_secs
        while not self._is_complete(train_step):
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECS)
            self._complete.refresh(timeout_secs)
        try:
            num_new, _ = table_stats(self._client, STREAM_TABLE, SERVER_TIMEOUT_SECS)
            num_stored, _ = table_stats(self._client, EXPERIENCE_TABLE, SERVER_TIMEOUT_SECS)
        except TimeoutError:
            return None
        items = []
        if not self._has_taken and num_stored > num_new:
            items += self._sample(EXPERIENCE_TABLE, num_stored)
        items += self._sample(STREAM_TABLE, num_new)
        self._has_taken = True
        return [
            np.array([item[index] for item in items], spec.dtype.as_numpy_dtype).reshape(
                [len(items), *spec.shape]
            )
            for index, spec in enumerate(self._reader.columns)
        ]

    def _is_complete(self, train_step: int) -> bool:
        complete = self._complete.latest
        return complete is not None and complete.train_step >= train_step

    def close(self) -> None:
        """Ends the thread, or gives up after a second."""
        self._complete.close()

    def _sample(self, table: str, count: int) -> list[list[NDArray[Any]]]:
        """Samples `count` items, or fewer if the server is restarted meanwhile."""
        arrived: queue.SimpleQueue[list[NDArray[Any]]] = queue.SimpleQueue()

        def sample() -> None:  # else it waits without limit for lost items
            with contextlib.suppress(reverb.errors.ReverbError, RuntimeError, StopIteration):
                for item in self._client.sample(table, count, emit_timesteps=False):
                    arrived.put(item.data)

        if count:
            start_thread(sample, f"sample of {table}")
        items: list[list[NDArray[Any]]] = []
        try:
            while len(items) < count:
                items.append(arrived.get(timeout=SERVER_TIMEOUT_SECS))
        except queue.Empty:
            pass  # the worker's journal sends it again
        return items
