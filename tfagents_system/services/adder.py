"""Turns env steps into items of the experience table."""

import collections
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import reverb
from reverb import pybind
from tf_agents.trajectories import time_step as ts

from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import LARGEST_BLOCK, SINGLE, ItemLayout
from tfagents_system.data.transition import Transition
from tfagents_system.services.journal import Checkpoints, Journal, Step
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.replay_files import item_priority

CHUNK_LENGTH = LARGEST_BLOCK  # transitions that the server keeps, sends and compresses together


class Adder:
    """Packs transitions and writes them in bursts.

        adder.add(time_step, action, next_time_step)   # every env step
        if adder.is_burst_due: adder.send()
        while not adder.is_confirmed(timeout_secs=1): ...   # the rate limiter holds collection

    A transition joins two steps of one episode, never the last of one to the first of the next.
    A block that is not full waits for the transitions of the next episodes. An episode shorter than
    a sequence gives one item, padded at its end with transitions of step type LAST and discount 0,
    which learners leave out.
    A journal numbers what is sent, so that what a crash of the server has lost can be sent again.
    Bursts, because a single item costs a wake-up of the sending thread. Not thread-safe.
    """

    def __init__(
        self,
        client: reverb.Client,
        codec: Codec,
        layout: ItemLayout = SINGLE,
        worker_id: int = 0,
        journal: Journal | None = None,
        burst_length: int = 48,
        burst_secs: float = 1.0,
        log: Callable[[str], None] = print,
        pads_short_episodes: bool = True,
    ):
        """Opens a writer.

        Args:
          client: Connection to the replay server.
          codec: Codec of one Transition.
          layout: Of the items.
          worker_id: Of this worker; what it sends is known by that and the journal's numbers.
          journal: Where everything is written down before it is sent; None sends without numbers.
          burst_length: Steps after which a burst is due; Reverb complains of more than 50 pending
            items.
          burst_secs: Age of the oldest unsent step after which a burst is due.
          log: Receives one line for each kind of rejected step.
          pads_short_episodes: Whether an episode shorter than a sequence is padded; otherwise it is
            left out and counted, for agents that do not mask padding.
        """
        self._codec = codec
        self._layout = layout
        self._worker_id = worker_id
        self._journal = journal
        self._burst_length = burst_length
        self._burst_secs = burst_secs
        self._log = log
        self._pads_short_episodes = pads_short_episodes
        # Each chunk costs the server about 1 kB of its own, but a sample fetches its whole chunk.
        chunk_length = max(1, layout.length // 4) if layout.is_sequence else CHUNK_LENGTH
        keep = max(chunk_length, layout.length)
        # Validation would wait here for the server without limit; the codec has validated.
        self._writer = client.trajectory_writer(num_keep_alive_refs=keep, validate_items=False)
        # The writer in C++: its Python layer takes four times as long as all else that it does.
        self._cpp_writer = self._writer._writer
        for column in range(len(codec.columns)):
            options = pybind.ConstantChunkerOptions(
                max_chunk_length=chunk_length, num_keep_alive_refs=keep
            )
            self._cpp_writer.ConfigureChunker(column, options)
        # References to the newest steps, by column.
        self._written = [collections.deque(maxlen=layout.length) for _ in codec.columns]
        self._block: list[list[np.ndarray]] = []  # columns of transitions that do not fill one yet
        self._unsent: list[tuple[list[np.ndarray], bool]] = []  # (columns, completes_item)
        self._oldest_unsent = 0.0
        self._last: Transition | None = None  # of the current episode
        self._steps_in_episode = 0
        self.rejected: collections.Counter[str] = collections.Counter()
        self.num_left_out = 0  # short episodes

    def add(self, time_step: ts.TimeStep, action, next_time_step: ts.TimeStep) -> bool:
        """Adds one env step; returns False if its data does not fit the spec.

        The caller then ends the episode: going on would leave a gap in the sequence.
        """
        transition = Transition(
            np.float32(time_step.step_type),
            time_step.observation,
            action,
            next_time_step.reward,
            next_time_step.discount,
            next_time_step.observation,
        )
        try:
            columns = self._codec.pack(transition)
        except ValueError as error:
            self._reject(str(error))
            return False
        self._last = transition
        self._steps_in_episode += 1
        if self._layout.is_sequence:
            self._queue(columns, self._steps_in_episode >= self._layout.length)
            return True
        self._block.append(columns)
        if len(self._block) == self._layout.length:
            *others, last = self._block
            for other in others:
                self._queue(other, completes_item=False)
            self._queue(last, completes_item=True)
            self._block.clear()
        return True

    def end_episode(self) -> None:
        """Must be called after the last step of each episode."""
        num_missing = self._layout.length - self._steps_in_episode
        if self._layout.is_sequence and self._steps_in_episode and num_missing > 0:
            if self._pads_short_episodes:
                self._pad(num_missing)
            else:
                self._leave_out()
        self._steps_in_episode = 0

    def _pad(self, num_missing: int) -> None:
        padding = self._last._replace(
            step_type=np.float32(ts.StepType.LAST),
            observation=self._last.next_observation,
            reward=np.float32(0),
            discount=np.float32(0),
        )
        columns = self._codec.pack(padding)
        for missing in reversed(range(num_missing)):
            self._queue(columns, completes_item=missing == 0)

    def _leave_out(self) -> None:
        """Counts the episode, whose steps complete no item."""
        if not self.num_left_out:
            self._log(
                f"WARNING: an episode is shorter than recurrent_sequence_length "
                f"({self._layout.length}) and is left out, because this agent does not mask "
                "padding (masks_padding); further ones are counted."
            )
        self.num_left_out += 1

    def _queue(self, columns: list[np.ndarray], completes_item: bool) -> None:
        if not self._unsent:
            self._oldest_unsent = time.monotonic()
        self._unsent.append((columns, completes_item))

    def _reject(self, reason: str) -> None:
        if not self.rejected[reason]:
            self._log(
                f"Rejected a step: {reason}. Its episode ends here; further ones are counted."
            )
        self.rejected[reason] += 1

    @property
    def is_burst_due(self) -> bool:
        """Whether `send` should be called now."""
        if not self._unsent:
            return False
        return (
            len(self._unsent) >= self._burst_length
            or time.monotonic() - self._oldest_unsent >= self._burst_secs
        )

    def send(self) -> None:
        """Hands all steps added so far to the sending thread; does not block."""
        if self._journal is None:
            self._write([Step(*step, number=0) for step in self._unsent])
        else:
            self._write(self._journal.append(self._unsent))
        self._unsent.clear()

    def send_lost(self, checkpoints: Checkpoints) -> Iterator[None]:
        """Sends what a crash of the server has lost, burst by burst, if there is a journal.

        Must be called between episodes; all bursts must be taken before the next `add`.
        """
        self.send()  # what is left of the last episode comes first
        # After a reconnection Reverb sends what is not confirmed in any order. That is at most two
        # bursts with the padding of short episodes: each waits until the one before is confirmed,
        # but while a server shuts down, that may come before the server has all of it.
        num_unordered = 2 * (self._burst_length + self._layout.length)
        lost = self._journal.reconcile(checkpoints, num_unordered) if self._journal else []
        for begin in range(0, len(lost), self._burst_length):
            self._write(lost[begin : begin + self._burst_length])
            yield

    @property
    def num_recovered(self) -> int:
        """Items sent again so far."""
        return self._journal.num_recovered if self._journal else 0

    @property
    def num_unprotected(self) -> int:
        """Steps sent for which the journal had no space."""
        return self._journal.num_unprotected if self._journal else 0

    def _write(self, steps: Sequence[Step]) -> None:
        is_single = [not self._layout.lead] * len(self._written)  # without time axis
        for step in steps:
            references = self._cpp_writer.Append(step.columns)
            for written, reference in zip(self._written, references, strict=True):
                written.append(reference)
            if step.completes_item:
                self._cpp_writer.CreateItem(
                    EXPERIENCE_TABLE,
                    item_priority(self._worker_id, step.number),
                    [list(written) for written in self._written],
                    is_single,
                )

    def is_confirmed(self, timeout_secs: float) -> bool:
        """Waits until the server has inserted everything sent; False if not within the timeout.

        The server confirms late while the rate limiter holds collection back, or while it is
        being restarted; unconfirmed items stay queued and are sent again.
        """
        try:
            self._writer.flush(timeout_ms=int(timeout_secs * 1000))
        except reverb.errors.DeadlineExceededError:
            return False
        return True
