"""Turns env steps into items of the experience table."""

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import reverb
import tree
from numpy.typing import NDArray
from reverb import pybind
from tf_agents.trajectories import time_step as ts

from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import newest_frames
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.transition import FIRST, LAST, MID, Step
from tfagents_system.services.chunks import rows_per_chunk
from tfagents_system.services.journal import Checkpoints, Journal, NumberedRow
from tfagents_system.services.replay import EXPERIENCE_TABLE


class Adder:
    """Packs env steps and writes them in bursts.

        adder.add(time_step, action, next_time_step, state)   # every env step
        adder.end_episode()
        if adder.is_burst_due: adder.send()
        while not adder.is_confirmed(timeout_secs=1): ...   # the rate limiter holds collection

    Makes the stream of rows that `Step` describes and cuts it into the items of a layout. An
    episode shorter than a sequence, or the rest of an episode that is cut into segments, is one
    item, padded at the end with rows of step type LAST and discount 0, which learners ignore.
    A journal numbers the rows, so that items lost in a crash of the server can be sent again.
    Items are sent in bursts, because each wakes up the sending thread. Not thread-safe.
    """

    def __init__(
        self,
        client: reverb.Client,
        codec: Codec,
        layout: ItemLayout = SINGLE,
        journal: Journal | None = None,
        burst_length: int = 48,
        burst_secs: float = 1.0,
        log: Callable[[str], None] = print,
        pads_short_episodes: bool = True,
        tables: Sequence[str] = (EXPERIENCE_TABLE,),
        gamma: float = 1.0,
    ):
        """Opens a writer.

        Args:
          client: Connection to the replay server.
          codec: Codec of one Step, with single frames.
          layout: Layout of the items.
          journal: Records everything before it is sent; None sends without numbers.
          burst_length: Rows after which a burst is due; Reverb warns at more than 50 pending
            items.
          burst_secs: Age of the oldest unsent row after which a burst is due.
          log: Receives one line for each kind of rejected step.
          pads_short_episodes: Whether to pad an episode shorter than a sequence; otherwise it is
            left out and counted, for agents that do not mask padding.
          tables: Each gets all items.
          gamma: Discount of the return so far, which is stored if the codec asks for it.
        """
        self._codec = codec
        self._blank = codec.zeros()
        self._mid = np.float32(MID)  # made once, because `add` is the hot path
        self._layout = layout
        self._journal = journal
        self._burst_length = burst_length
        self._burst_secs = burst_secs
        self._log = log
        self._tables = tables
        self._gamma = np.float32(gamma)
        self._stores_return = codec.spec.return_so_far != ()
        self._pads_short_episodes = pads_short_episodes
        chunk_length = rows_per_chunk(codec, layout)
        keep = max(chunk_length, layout.rows)
        # `open_writer` is not needed: the program has just read and compared the table's signature
        # (services/signatures.py), and the codec validates.
        self._writer = client.trajectory_writer(num_keep_alive_refs=keep, validate_items=False)
        # The writer in C++, because its Python layer takes four times as long as all the rest.
        self._cpp_writer = self._writer._writer
        for column in range(len(codec.columns)):
            options = pybind.ConstantChunkerOptions(
                max_chunk_length=chunk_length, num_keep_alive_refs=keep
            )
            self._cpp_writer.ConfigureChunker(column, options)
        # References to the newest rows, by column.
        self._written: list[collections.deque[Any]] = [
            collections.deque(maxlen=layout.rows) for _ in codec.columns
        ]
        self._block: list[list[NDArray[Any]]] = []  # rows that do not fill a chunk yet
        self._unsent: list[tuple[list[NDArray[Any]], bool]] = []  # (columns, completes_item)
        self._oldest_unsent = 0.0
        self._newest: Step | None = None  # of the current episode
        self._return_so_far = np.float32(0)
        self._rows_in_episode = 0
        self.rejected: collections.Counter[str] = collections.Counter()
        self.num_left_out = 0  # short episodes

    def add(
        self, time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any = ()
    ) -> bool:
        """Adds one env step; returns False if its data do not fit the spec.

        The caller must then end the episode, because there would be a gap in the stream.

        Args:
          time_step: Time step before the action.
          action: The action.
          next_time_step: Time step after the action.
          state: The policy's state after the action, stored if the codec has extras; a policy
            without a state, such as a random one, leaves zeros.
        """
        if self._newest is None:
            # Begins with the frames that its first transition stacks.
            first = self._blank._replace(
                step_type=np.float32(FIRST), observation=self._frames(time_step.observation)
            )
            if not self._append(first, num_times=self._layout.frame_stack):
                return False
        step = Step(
            self._mid,
            self._frames(next_time_step.observation),
            action,
            next_time_step.reward,
            next_time_step.discount,
            self._stored(state),
        )
        if self._stores_return:
            self._return_so_far = self._gamma * self._return_so_far + np.float32(step.reward)
            step = step._replace(return_so_far=self._return_so_far)
        return self._append(step)

    def end_episode(self) -> None:
        """Ends the episode; call it after the last step of each."""
        num_transitions = self._rows_in_episode - self._layout.frame_stack
        num_missing = self._layout.num_missing(num_transitions)
        if self._layout.is_sequence and num_transitions > 0 and num_missing > 0:
            if self._pads_short_episodes:
                assert self._newest is not None, "the end of a transition"
                padding = self._blank._replace(
                    step_type=np.float32(LAST), observation=self._newest.observation
                )
                self._append(padding, num_missing)
            else:
                self._leave_out()
        self._newest = None
        self._return_so_far = np.float32(0)
        self._rows_in_episode = 0

    def _stored(self, state: Any) -> Any:
        """Returns the parts of a state to store, [units], or [1, units] from TensorFlow."""
        if not self._codec.spec.extras:
            return ()
        return [np.ravel(part) for part in tree.flatten(state)] or self._blank.extras

    def _frames(self, observation: Any) -> Any:
        """Returns the new frames of an observation."""
        if self._layout.frame_stack == 1:
            return observation
        return newest_frames(observation, self._codec.spec.observation)

    def _append(self, step: Step, num_times: int = 1) -> bool:
        """Appends a row, and the items that it completes; returns False if it is rejected."""
        try:
            columns = self._codec.pack(step)
        except ValueError as error:
            self._reject(str(error))
            return False
        self._newest = step
        for _ in range(num_times):
            self._rows_in_episode += 1
            if not self._layout.is_block:
                num_transitions = self._rows_in_episode - self._layout.frame_stack
                ends = num_transitions > 0 and self._layout.ends_sequence(num_transitions)
                self._queue(columns, completes_item=ends)
                continue
            self._block.append(columns)
            if len(self._block) == self._layout.rows:
                for row in self._block[:-1]:
                    self._queue(row, completes_item=False)
                self._queue(columns, completes_item=True)
                self._block = self._block[self._layout.length :]
        return True

    def _leave_out(self) -> None:
        """Counts an episode that is left out, because its steps complete no item."""
        if not self.num_left_out:
            self._log(
                f"WARNING: an episode, or its rest, is shorter than {self._layout.length} env "
                "steps and is left out, because this agent does not mask padding (masks_padding); "
                "further ones are counted."
            )
        self.num_left_out += 1

    def _queue(self, columns: list[NDArray[Any]], completes_item: bool) -> None:
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
        """Whether to call `send` now."""
        if not self._unsent:
            return False
        return (
            len(self._unsent) >= self._burst_length
            or time.monotonic() - self._oldest_unsent >= self._burst_secs
        )

    def send(self) -> None:
        """Passes all rows added so far to the sending thread; does not block."""
        if self._journal is None:
            self._write([NumberedRow(*row, number=0) for row in self._unsent])
        else:
            self._write(self._journal.append(self._unsent))
        self._unsent.clear()

    def send_lost(self, checkpoints: Checkpoints) -> Iterator[None]:
        """Sends again, burst by burst, what a crash of the server has lost, if there is a journal.

        Call it between episodes, and exhaust it before the next `add`.
        """
        self.send()  # the rest of the last episode comes first
        # After a reconnection Reverb sends unconfirmed items in any order. These are at most two
        # bursts, with the padding of short episodes: each burst waits until the one before is
        # confirmed, but a server that shuts down may confirm before it has everything.
        num_unordered = 2 * (self._burst_length + self._layout.rows)
        lost = self._journal.reconcile(checkpoints, num_unordered) if self._journal else []
        for begin in range(0, len(lost), self._burst_length):
            self._write(lost[begin : begin + self._burst_length])
            yield

    @property
    def num_recovered(self) -> int:
        """Number of items sent again so far."""
        return self._journal.num_recovered if self._journal else 0

    @property
    def num_damaged(self) -> int:
        """Number of rows that should have been sent again but are damaged in the journal."""
        return self._journal.num_damaged if self._journal else 0

    @property
    def num_unprotected(self) -> int:
        """Number of sent rows for which the journal had no space."""
        return self._journal.num_unprotected if self._journal else 0

    def _write(self, rows: Sequence[NumberedRow]) -> None:
        is_single = [False] * len(self._written)  # an item has a time axis
        for row in rows:
            references = self._cpp_writer.Append(row.columns)
            for written, reference in zip(self._written, references, strict=True):
                written.append(reference)
            for table in self._tables if row.completes_item else ():
                self._cpp_writer.CreateItem(
                    table,
                    float(row.number),
                    [list(written) for written in self._written],
                    is_single,
                )

    def is_confirmed(self, timeout_secs: float) -> bool:
        """Waits until the server has inserted everything; returns False after the timeout.

        The server confirms late while the rate limiter holds collection back, or during its
        restart; unconfirmed items stay queued and are sent again.
        """
        try:
            self._writer.flush(timeout_ms=int(timeout_secs * 1000))
        except reverb.errors.DeadlineExceededError:
            return False
        return True
