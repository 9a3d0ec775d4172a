"""The policy's variables on their way from the learner to the workers."""

import threading
from typing import NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from tfagents_system.data.codec import Codec
from tfagents_system.services.replay import VARIABLES_TABLE, experience_stats


class PublishedVariables(NamedTuple):
    """One published version of the policy."""

    train_step: int
    values: list[np.ndarray]  # in the order of `policy.variables()`


def _codec(variables) -> Codec:
    step = tf.TensorSpec([], tf.int64)
    return Codec((step, [tf.TensorSpec(v.shape, v.dtype) for v in variables]))


class VariablePublisher:
    """The learner's side: replaces the published version."""

    def __init__(self, client: reverb.Client, variables: list[tf.Variable]):
        """`variables` are read at each `publish`."""
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
        self._writer.create_item(
            VARIABLES_TABLE, 1.0, [column[-1] for column in self._writer.history]
        )
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
    reader.close()
    """

    def __init__(self, address: str, variables: list[tf.Variable], period_secs: float):
        """Starts the thread, which pulls every `period_secs` until `close`."""
        self.latest: PublishedVariables | None = None
        self._codec = _codec(variables)
        self._client = reverb.Client(address)
        self._period_secs = period_secs
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="variables", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, or gives up after a second.

        The thread may be waiting for a first version, or for the server to come back.
        """
        self._is_closed.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._pull()
            except (reverb.errors.ReverbError, RuntimeError, StopIteration, TimeoutError):
                pass  # the server is being restarted; the next round asks again
            self._is_closed.wait(self._period_secs)

    def _pull(self) -> None:
        experience_stats(self._client, timeout_secs=5)  # to ask again later if it is away
        # Blocks until something has been published, and while the server is away.
        (sample,) = self._client.sample(VARIABLES_TABLE, 1, emit_timesteps=False)
        train_step, values = self._codec.unpack(sample.data)
        self.latest = PublishedVariables(int(train_step), values)
