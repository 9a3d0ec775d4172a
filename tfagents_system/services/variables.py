"""The policy's variables on their way from the learner to the workers."""

import threading
import time
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from tfagents_system.data.codec import Codec
from tfagents_system.services.replay import VARIABLES_TABLE
from tfagents_system.services.table_info import table_stats


class PublishedVariables(NamedTuple):
    """One published version of the policy."""

    train_step: int
    values: list[np.ndarray]  # in the order of `policy.variables()`


def _codec(variables) -> Codec:
    step = tf.TensorSpec([], tf.int64)
    return Codec((step, [tf.TensorSpec(v.shape, v.dtype) for v in variables]))


class VariablePublisher:
    """The learner's side: replaces the published version."""

    def __init__(
        self, client: reverb.Client, variables: list[tf.Variable], table: str = VARIABLES_TABLE
    ):
        """`variables` are read at each `publish`; `table` keeps one version."""
        self._table = table
        self._variables = variables
        self._codec = _codec(variables)
        # Validation would wait here for the server without limit.
        self._writer = client.trajectory_writer(num_keep_alive_refs=1, validate_items=False)
        self._is_confirmed = True

    def publish(self, train_step: int, timeout_secs: float = 5.0) -> bool:
        """Publishes the current values; returns False if unconfirmed after `timeout_secs`.

        An unconfirmed version is sent again by itself; until it is confirmed, the next calls only
        wait for that and return False, so that versions do not pile up while the server is away.
        """
        if not self._is_confirmed and not self._await_confirmation(timeout_secs):
            return False
        values = [variable.numpy() for variable in self._variables]
        self._writer.append(self._codec.pack((np.int64(train_step), values)))
        self._writer.create_item(self._table, 1.0, [column[-1] for column in self._writer.history])
        return self._await_confirmation(timeout_secs)

    def _await_confirmation(self, timeout_secs: float) -> bool:
        try:
            # 0 would wait without limit.
            self._writer.flush(timeout_ms=max(1, int(timeout_secs * 1000)))
            self._is_confirmed = True
        except reverb.errors.ReverbError:
            self._is_confirmed = False
        return self._is_confirmed


class VariableReader:
    """A worker's side: a thread pulls the newest version, so that stepping never waits for it.

    reader = VariableReader(address, policy.variables(), period_secs=1.0)
    published = reader.latest   # None until the learner has published
    reader.refresh(timeout_secs=0.5)   # now `latest` is the newest, if the server has answered
    reader.close()
    """

    def __init__(
        self,
        address: str,
        variables: list[tf.Variable],
        period_secs: float,
        table: str = VARIABLES_TABLE,
    ):
        """Starts the thread, which pulls from `table` every `period_secs` until `close`."""
        self._table = table
        self.latest: PublishedVariables | None = None
        self._codec = _codec(variables)
        self._client = reverb.Client(address)
        self._period_secs = period_secs
        self._num_inserted: int | None = None  # into the table, before `latest` was sampled
        self._condition = threading.Condition()  # of the following three
        self._num_requests = self._num_answered = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="variables", daemon=True)
        self._thread.start()

    def refresh(self, timeout_secs: float) -> None:
        """Waits until the thread has asked the server anew, `timeout_secs` at most.

        Does not wait while the thread still waits for the answer to an earlier request.
        """
        with self._condition:
            is_answering = self._num_answered == self._num_requests
            self._num_requests += 1
            request = self._num_requests
            self._condition.notify_all()
            if is_answering:
                self._condition.wait_for(lambda: self._num_answered >= request, timeout_secs)

    def close(self) -> None:
        """Ends the thread, or gives up after a second.

        The thread may be waiting for a first version, or for the server to come back.
        """
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        request, due_at = 0, 0.0
        while not self._is_closed:
            is_due = time.monotonic() >= due_at
            try:
                self._pull(is_due)
            except (reverb.errors.ReverbError, RuntimeError, StopIteration, TimeoutError):
                pass  # the server is being restarted; the next round asks again
            if is_due:
                due_at = time.monotonic() + self._period_secs
            request = self._await_request(request, due_at)

    def _await_request(self, request: int, due_at: float) -> int:
        """Answers `request`; waits until `due_at` for the next one and returns its number."""

        def is_wanted() -> bool:
            return self._is_closed or self._num_requests > request

        with self._condition:
            self._num_answered = request
            self._condition.notify_all()
            self._condition.wait_for(is_wanted, max(0.0, due_at - time.monotonic()))
            return self._num_requests

    def _pull(self, is_due: bool) -> None:
        """Samples the newest version; if not `is_due`, only if the server's counter has moved."""
        num_inserted = table_stats(self._client, self._table, timeout_secs=5)[1]
        # A restarted server may come to the same number, so this alone is not relied on for long.
        if not is_due and num_inserted == self._num_inserted:
            return
        # Blocks until something has been published, and while the server is away.
        (sample,) = self._client.sample(self._table, 1, emit_timesteps=False)
        train_step, values = self._codec.unpack(sample.data)
        self.latest = PublishedVariables(int(train_step), values)
        self._num_inserted = num_inserted
