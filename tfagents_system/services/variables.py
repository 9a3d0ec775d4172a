"""Publishes the policy's variables from the learner to the workers."""

import threading
import time
from collections.abc import Sequence

import reverb
import tensorflow as tf

from tfagents_system.core.process.background import start_thread
from tfagents_system.services.replay import VARIABLES_TABLE
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.versions import PolicyVersion, VersionCodec
from tfagents_system.services.writers import open_writer

MOST_TIME_PULLING = 0.05
MOST_PERIOD_SECS = 5.0  # a pull that seems to take longer has waited for a restart


class VariablePublisher:
    """The learner's side: replaces the published version."""

    def __init__(
        self,
        client: reverb.Client,
        variables: Sequence[tf.Variable],
        table: str = VARIABLES_TABLE,
        num_courses: int = 0,
    ):
        """Sends no request yet.

        Args:
          client: Connection to the replay server.
          variables: Read at each `publish`.
          table: Keeps one version.
          num_courses: The curriculum's number of parameters with lessons.
        """
        self._client = client
        self._table = table
        self._versions = VersionCodec(variables, num_courses)
        self._writer: reverb.TrajectoryWriter | None = None
        self._is_confirmed = True
        self._published: tuple[int, int, tuple[int, ...]] | None = None

    def publish(
        self,
        train_step: int,
        num_tickets: int = 0,
        timeout_secs: float = 5.0,
        lessons: tuple[int, ...] = (),
    ) -> bool:
        """Publishes the current values; returns False if unconfirmed after `timeout_secs`.

        Publishes nothing if the server still has this version. Sending of an
        unconfirmed version continues by itself; until it is confirmed, the next calls only wait
        and return False, so that versions do not pile up while the server is unreachable. The
        first call also waits up to `timeout_secs` for an answer.
        """
        if not self._is_confirmed and not self._await_confirmation(timeout_secs):
            return False
        if self._published == (train_step, num_tickets, lessons) and self._is_there():
            return True
        if self._writer is None:
            try:
                self._writer = open_writer(self._client, self._table, timeout_secs)
            except TimeoutError:
                return False
        self._writer.append(self._versions.pack(train_step, num_tickets, lessons))
        self._published = train_step, num_tickets, lessons
        self._writer.create_item(self._table, 1.0, [column[-1] for column in self._writer.history])
        return self._await_confirmation(timeout_secs)

    def _await_confirmation(self, timeout_secs: float) -> bool:
        assert self._writer is not None, "it has sent what is to be confirmed"
        try:
            # 0 would wait without limit.
            self._writer.flush(timeout_ms=max(1, int(timeout_secs * 1000)))
            self._is_confirmed = True
        except reverb.errors.ReverbError:
            self._is_confirmed = False
        return self._is_confirmed

    def _is_there(self) -> bool:
        """Returns whether the server has a version; after a restart it has none."""
        try:
            return table_stats(self._client, self._table, timeout_secs=1.0)[0] > 0
        except TimeoutError:
            return False


class VariableReader:
    """Pulls the newest version of a policy in a background thread, so that stepping never waits.

    The thread ends with an exception if a version does not fit the variables: see core/process.

    reader = VariableReader(address, policy.variables(), period_secs=0.5)
    published = reader.latest   # None until the learner has published
    reader.refresh(timeout_secs=0.5)   # now `latest` is the newest, if the server has answered
    reader.close()

    A pull asks the server for its number of versions, and fetches the newest if that has changed.
    On a busy network pulls are less frequent, so that they take at most MOST_TIME_PULLING.
    """

    def __init__(
        self,
        address: str,
        variables: Sequence[tf.Variable],
        period_secs: float,
        table: str = VARIABLES_TABLE,
        num_courses: int = 0,
    ):
        """Starts the thread, which pulls from `table` every `period_secs`, or less often.

        `num_courses` is the curriculum's number of parameters with lessons.
        """
        self._table = table
        self.latest: PolicyVersion | None = None
        self._versions = VersionCodec(variables, num_courses)
        self._client = reverb.Client(address)
        self._period_secs = period_secs
        self._num_inserted: int | None = None  # number of insertions before `latest` was sampled
        self._condition = threading.Condition()  # of the following three
        self._num_requests = self._num_answered = 0
        self._is_closed = False
        self._thread = start_thread(self._run, "variables")

    def refresh(self, timeout_secs: float) -> None:
        """Waits until the thread has asked the server again, for at most `timeout_secs`.

        Does not wait if the thread is still waiting for an earlier answer.
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

        The thread may be waiting for a first version, or for a restart of the server.
        """
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        request = 0
        while not self._is_closed:
            begin, period_secs = time.monotonic(), self._period_secs
            try:
                self._pull()
                period_secs = max(period_secs, (time.monotonic() - begin) / MOST_TIME_PULLING)
            except (reverb.errors.ReverbError, RuntimeError, StopIteration, TimeoutError):
                self._num_inserted = None  # the server restarts; the next round asks again
            due_at = time.monotonic() + min(period_secs, MOST_PERIOD_SECS)
            request = self._await_request(request, due_at)

    def _await_request(self, request: int, due_at: float) -> int:
        """Answers `request`; waits until `due_at` for the next request and returns its number."""

        def is_wanted() -> bool:
            return self._is_closed or self._num_requests > request

        with self._condition:
            self._num_answered = request
            self._condition.notify_all()
            self._condition.wait_for(is_wanted, max(0.0, due_at - time.monotonic()))
            return self._num_requests

    def _pull(self) -> None:
        """Fetches the newest version if the table's counter has changed.

        A restarted server's counter begins again, and may come to the same number: so it is
        forgotten while the server is away, or has no version.
        """
        size, num_inserted = table_stats(self._client, self._table, timeout_secs=5)
        if not size:
            self._num_inserted = None
        if num_inserted == self._num_inserted or not size:
            return
        # Blocks if the server ends just now.
        (sample,) = self._client.sample(self._table, 1, emit_timesteps=False)
        self.latest = self._versions.unpack(sample.data)
        self._num_inserted = num_inserted
