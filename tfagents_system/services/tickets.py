"""Distributes the greedy episodes of an evaluation: the learner hands out tickets to workers.

A ticket contains the policy to evaluate, so that all episodes of an evaluation are of one policy,
whoever runs them and whenever. A worker that is stopped gives its ticket back; the ticket of one
that vanishes is lost.
"""

import contextlib
import pathlib
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import reverb
import tensorflow as tf

from tfagents_system.core.process.background import start_thread
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import read_json, write_json_atomically
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.versions import PolicyVersion, VersionCodec
from tfagents_system.services.writers import open_writer

TICKETS_TABLE = "evaluation"
ANSWER_SECS = 2.0  # of the server
CONFIRMATION_SECS = 5.0  # of arrived tickets; takes half a second during a save
LOOK_SECS = 2.0  # between checks for tickets that were given back
# A ticket's priority, which queues ignore, tells whether to film its episode.
FILMED, NOT_FILMED = 2.0, 1.0
TAKING_MS = 10  # longest wait for a ticket, which another worker may have taken first


def tickets_table(num_episodes: int) -> reverb.Table:
    """Returns the queue of tickets, with room for three evaluations of `num_episodes`."""
    return reverb.Table(
        name=TICKETS_TABLE,
        sampler=reverb.selectors.Fifo(),
        remover=reverb.selectors.Fifo(),
        max_size=max(1, 3 * num_episodes),
        max_times_sampled=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )


class HandedOut(NamedTuple):
    """The newest evaluation that was handed out."""

    iteration: int = 0  # in which it was due; 0 if there was none
    train_step: int = 0  # the policy's
    num_tickets: int = 0  # number of insertions into the table when it was complete


class TicketOffice:
    """The learner's side: hands out the tickets of each evaluation, once.

        office.hand_out_if_due(train_step)
        publisher.publish(train_step, office.num_tickets)   # tells the workers about tickets

    An evaluation is due after every `eval_period_itrs` iterations and at the end. Before it is
    handed out, it is recorded with the table's count of insertions afterwards. So a restarted
    learner knows what to do. If the count was reached, nothing. If not, the tickets have never
    arrived, or a replay server has lost them: the evaluation is handed out again, unless all its
    episodes are recorded. While more than one evaluation waits for workers, the next one is
    postponed, so that it never drops tickets of another.
    """

    def __init__(
        self,
        client: reverb.Client,
        variables: Sequence[tf.Variable],
        settings: TrainingSettings,
        path: pathlib.Path,
        recorded: Callable[[int], Sequence[float]],
    ):
        """Sends no request yet.

        Args:
          client: Connection to the replay server.
          variables: The policy's variables, read when an evaluation is handed out.
          settings: When evaluations are due, and their number of episodes.
          path: File of the newest evaluation.
          recorded: Returns the returns of all recorded episodes of a train step's policy.
        """
        # Known number of insertions into the table. A ticket that is given back counts again, which
        # shows the workers that there is one.
        self.num_tickets = 0
        self._client = client
        self._settings = settings
        self._path = path
        self._guard = SpaceGuard("evaluation", path.parent)
        self._recorded = recorded
        self._versions = VersionCodec(variables)
        self._writer: reverb.TrajectoryWriter | None = None
        self._is_confirmed = True
        self._knows_server, self._look_at = False, 0.0
        self._newest = _read(path)

    def doubt_server(self) -> None:
        """Notes that the server may have restarted since the last call, without its tickets."""
        self._knows_server = False

    def hand_out_if_due(self, train_step: int, ends_early: bool = False) -> bool:
        """Hands out the policy's tickets if an evaluation is due; returns whether this is done.

        `ends_early` tells that this policy is the last one, whatever the iteration.

        If not, call it again: the server does not answer, or has no room. Takes no time if nothing
        is due, except every LOOK_SECS. Waits for the server's confirmation for at most
        CONFIRMATION_SECS.
        """
        try:
            if not self._is_confirmed:
                self._await_confirmation()
            if not self._knows_server or time.monotonic() >= self._look_at:
                self._look_for_lost()
            due = self._due_at(train_step, ends_early)
            if self._is_to_hand_out(due, train_step, ends_early):
                is_last = ends_early or due >= self._settings.num_iter
                self._hand_out(due, train_step, is_last)
            is_open = self._is_to_hand_out(due, train_step, ends_early)
            return not is_open and self._is_confirmed
        except TimeoutError:
            return False

    def _is_to_hand_out(self, due: int, train_step: int, ends_early: bool) -> bool:
        """Returns whether the evaluation due in an iteration, 0 if none is, is not handed out."""
        is_newer = due > 0 and ends_early and train_step > self._newest.train_step
        return due > self._newest.iteration or is_newer

    def _due_at(self, train_step: int, ends_early: bool) -> int:
        """Returns the iteration in which the newest evaluation was due; 0 if none was."""
        settings = self._settings
        if not settings.eval_period_itrs or not settings.n_eval_episodes:
            return 0
        iteration = train_step // settings.num_steps_per_iter
        if iteration >= settings.num_iter or ends_early:
            return min(iteration, settings.num_iter)
        return iteration - iteration % settings.eval_period_itrs

    def _look_for_lost(self) -> None:
        _, self.num_tickets = table_stats(self._client, TICKETS_TABLE, ANSWER_SECS)
        self._knows_server, self._look_at = True, time.monotonic() + LOOK_SECS
        newest = self._newest
        is_lost = self.num_tickets < newest.num_tickets
        if is_lost and len(self._recorded(newest.train_step)) < self._settings.n_eval_episodes:
            print(f"The evaluation of iteration {newest.iteration} has lost tickets with the "
                  "replay server; it is handed out again.", flush=True)  # fmt: skip
            self._newest = newest._replace(iteration=newest.iteration - 1)

    def _hand_out(self, due: int, train_step: int, is_last: bool) -> None:
        num_waiting, num_inserted = table_stats(self._client, TICKETS_TABLE, ANSWER_SECS)
        num_episodes = self._settings.n_eval_episodes
        if num_waiting > num_episodes and not is_last:
            return
        if self._writer is None:
            self._writer = open_writer(self._client, TICKETS_TABLE, ANSWER_SECS)
        is_filmed = self._is_film_due(due, is_last)
        self._write_down(HandedOut(due, train_step, num_inserted + num_episodes))
        self._writer.append(self._versions.pack(train_step))
        columns = [column[-1] for column in self._writer.history]
        for index in range(num_episodes):
            priority = FILMED if is_filmed and index == 0 else NOT_FILMED
            self._writer.create_item(TICKETS_TABLE, priority, columns)
        self._is_confirmed = False
        self._await_confirmation()

    def _is_film_due(self, due: int, is_last: bool) -> bool:
        """Returns whether an iteration's evaluation is the first of a film period, or the last."""
        period, before = self._settings.video_period_itrs, self._newest.iteration
        if not period:
            return False
        return due // period > before // period or is_last

    def _await_confirmation(self) -> None:
        """Raises TimeoutError if the tickets have not arrived yet; sending continues by itself."""
        assert self._writer is not None, "it has sent what is to be confirmed"
        try:
            self._writer.flush(timeout_ms=int(CONFIRMATION_SECS * 1000))
        except reverb.errors.ReverbError as error:
            raise TimeoutError(f"tickets are not confirmed: {error}") from error
        self._is_confirmed = True
        _, self.num_tickets = table_stats(self._client, TICKETS_TABLE, ANSWER_SECS)
        if self.num_tickets != self._newest.num_tickets:  # the server was restarted meanwhile
            self._write_down(self._newest._replace(num_tickets=self.num_tickets))

    def _write_down(self, newest: HandedOut) -> None:
        self._newest = newest
        with self._guard:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomically(self._path, newest._asdict())


def _read(path: pathlib.Path) -> HandedOut:
    """Returns the last evaluation handed out; none if the file is missing or damaged."""
    try:
        return HandedOut(**(read_json(path) or {}))
    except (OSError, ValueError, TypeError):
        return HandedOut()


class TicketTaker:
    """Takes evaluation tickets from the replay server, and returns those whose episode was not run.

    ticket = tickets.take()   # None if none is left
    tickets.give_back(ticket)   # if its episode was not run
    """

    def __init__(self, address: str, variables: Sequence[tf.Variable]):
        """Sends no request yet; `variables` are the policy's."""
        self._client = reverb.Client(address)
        self._versions = VersionCodec(variables)
        columns = self._versions.columns
        # The client's own `sample` has no timeout.
        options = tf.data.Options()
        options.autotune.enabled = False
        options.threading.private_threadpool_size = 1
        self._dataset = reverb.TrajectoryDataset(
            server_address=address,
            table=TICKETS_TABLE,
            dtypes=tuple(spec.dtype for spec in columns),
            shapes=tuple(spec.shape for spec in columns),
            max_in_flight_samples_per_worker=1,
            num_workers_per_iterator=1,
            max_samples=1,
            rate_limiter_timeout_ms=TAKING_MS,
        ).with_options(options)

    def take(self) -> PolicyVersion | None:
        """Takes a ticket to run an episode of its policy; None if there is none.

        Blocks for milliseconds, or while an evaluation is being handed out.

        Raises:
          TimeoutError: If the server does not answer.
        """
        num_waiting, _ = table_stats(self._client, TICKETS_TABLE, ANSWER_SECS)
        if not num_waiting:
            return None
        arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def sample() -> None:  # otherwise it waits without limit for a server that ends just now
            try:
                arrived.put(next(iter(self._dataset), None))
            except tf.errors.InvalidArgumentError:  # a ticket of other variables
                raise
            except (reverb.errors.ReverbError, RuntimeError, tf.errors.OpError):
                pass

        start_thread(sample, "ticket")
        try:
            taken = arrived.get(timeout=ANSWER_SECS)
        except queue.Empty:
            raise TimeoutError("no ticket from the replay server, which has some") from None
        if taken is None:
            return None
        version = self._versions.unpack([column.numpy() for column in taken.data])
        return version._replace(is_filmed=float(taken.info.priority) == FILMED)

    def give_back(self, ticket: PolicyVersion) -> None:
        """Returns the ticket for another worker; gives up if the server is unreachable.

        Waits for the server for at most ANSWER_SECS, and CONFIRMATION_SECS for its confirmation.
        """
        with contextlib.suppress(TimeoutError, reverb.errors.ReverbError):
            writer = open_writer(self._client, TICKETS_TABLE, ANSWER_SECS)
            writer.append(self._versions.pack_version(ticket))
            priority = FILMED if ticket.is_filmed else NOT_FILMED
            writer.create_item(TICKETS_TABLE, priority, [column[-1] for column in writer.history])
            writer.flush(timeout_ms=int(CONFIRMATION_SECS * 1000))
