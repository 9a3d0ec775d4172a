"""Turns env steps into items of the experience table."""

import collections
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import reverb
from reverb import pybind
from tf_agents.trajectories import time_step as ts

from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.services.chunks import rows_per_chunk
from tfagents_system.services.intervention_files import InterventionFile
from tfagents_system.services.journal import Checkpoints, Journal, NumberedRow
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.slot_rows import Row, SkipCounts, SlotRows

ROWS_PER_REPEATED = 10  # of a piece, at least: see SlotRows


class Adder:
    """Packs env steps and writes them in bursts.

        adder.add(time_step, action, next_time_step, state)   # every env step
        adder.end_episode()
        if adder.is_burst_due: adder.send()
        while not adder.is_confirmed(timeout_secs=1): ...   # the rate limiter holds collection

    Makes the stream of rows that `Step` describes, cut into the items of a layout. A journal
    numbers the rows, so that items lost in a crash of the server can be sent again. Items are sent
    in bursts, because each wakes up the sending thread. Several slots, each with an environment of
    its own, share the stream; no item has rows of two. Not thread-safe.
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
        tables: Sequence[str] = (EXPERIENCE_TABLE,),
        gamma: float = 1.0,
        num_slots: int = 1,
        interventions: InterventionFile | None = None,
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
          tables: Each gets all items.
          gamma: Discount of the return so far, which is stored if the codec asks for it.
          num_slots: Number of slots.
          interventions: Keeps the samples with an intervention; None keeps none.
        """
        self._layout = layout
        self._journal = journal
        self._interventions = interventions
        self._burst_length = burst_length
        self._burst_secs = burst_secs
        self._tables = tables
        self._skipped = SkipCounts(log, layout)
        # A single slot's rows are always next to one another.
        piece_rows = 1 if num_slots == 1 else max(burst_length, ROWS_PER_REPEATED * layout.rows)
        self._slots = [
            SlotRows(codec, layout, self._queue, self._skipped, gamma, piece_rows)
            for _ in range(num_slots)
        ]
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
        self._unsent: list[Row] = []
        self._oldest_unsent = 0.0

    def add(
        self,
        time_step: ts.TimeStep,
        action: Any,
        next_time_step: ts.TimeStep,
        state: Any = (),
        slot: int = 0,
        is_intervention: bool = False,
    ) -> bool:
        """Adds one env step; see `SlotRows.add`."""
        return self._slots[slot].add(time_step, action, next_time_step, state, is_intervention)

    def end_episode(self, slot: int = 0) -> None:
        """Ends the episode of a slot; call it after the last step of each."""
        self._slots[slot].end_episode()

    @property
    def rejected(self) -> collections.Counter[str]:
        """Numbers of steps that did not fit the spec, by reason."""
        return self._skipped.rejected

    @property
    def num_left_out(self) -> int:
        """Number of short episodes that are left out."""
        return self._skipped.num_left_out

    def _queue(self, rows: Sequence[Row]) -> None:
        if not self._unsent:
            self._oldest_unsent = time.monotonic()
        self._unsent += rows

    @property
    def is_burst_due(self) -> bool:
        """Whether to call `send` now."""
        if not self._unsent:
            return False
        return (
            len(self._unsent) >= self._burst_length
            or time.monotonic() - self._oldest_unsent >= self._burst_secs
        )

    def send(self) -> bool:
        """Passes rows added so far to the sending thread; does not block.

        These are all, or a burst of the rows of several slots or of sequences; returns whether some
        are left.
        """
        end = self._burst_end()
        rows, self._unsent = self._unsent[:end], self._unsent[end:]
        if self._interventions is not None:
            self._interventions.append(rows)
        unnumbered = [(row.columns, row.completes_item) for row in rows]
        if self._journal is None:
            self._write([NumberedRow(*row, number=0) for row in unnumbered])
        else:
            self._write(self._journal.append(unnumbered))
        return bool(self._unsent)

    def _burst_end(self) -> int:
        if len(self._slots) > 1:
            return self._burst_length
        if not self._layout.is_sequence:
            return len(self._unsent)
        # The padding of an episode comes at once, and each row of it completes an item.
        num_items = itertools.accumulate(row.completes_item for row in self._unsent)
        return sum(count <= self._burst_length for count in num_items)

    def send_lost(self, checkpoints: Checkpoints) -> Iterator[None]:
        """Sends again, burst by burst, what a crash of the server has lost, if there is a journal.

        Call it between episodes of a single slot, with several at any time, and exhaust it before
        the next `add`.
        """
        while self.send():  # the rest of the last episode, or the last piece, comes first
            yield
        # After a reconnection Reverb sends unconfirmed items in any order. These are at most two
        # bursts, with the padding of episodes: each burst waits until the one before is
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
