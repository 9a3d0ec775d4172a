"""Turns the env steps of one slot into rows of a worker's stream."""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import newest_frames
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.transition import FIRST, LAST, MID, Step

MOST_LEFT_OUT = 1000  # episodes one after another, with no item between them


class Row(NamedTuple):
    """A row of a worker's stream."""

    columns: list[NDArray[Any]]  # packed
    completes_item: bool
    is_intervention: bool = False  # whether its action was an intervention


class SkipCounts:
    """Counts what does not enter the stream, and logs the first of each kind."""

    def __init__(self, log: Callable[[str], None], layout: ItemLayout):
        """`log` receives the lines; `layout` is that of the items."""
        self._log, self._layout = log, layout
        self.rejected: collections.Counter[str] = collections.Counter()  # steps, by reason
        self.num_left_out = 0  # short episodes
        self._left_out_in_a_row = 0

    def reject(self, reason: str) -> None:
        """Counts a step whose data do not fit the spec."""
        if not self.rejected[reason]:
            self._log(
                f"Rejected a step: {reason}. Its episode ends here; further ones are counted."
            )
        self.rejected[reason] += 1

    def keep(self) -> None:
        """Notes that a step completed an item."""
        self._left_out_in_a_row = 0

    def leave_out(self) -> None:
        """Counts an episode that is left out, because its steps complete no item.

        Raises:
          ConfigError: If so many were left out in a row that training would wait for ever.
        """
        length = self._layout.length
        if not self.num_left_out:
            self._log(
                f"WARNING: an episode, or its rest, is shorter than {length} env steps and is left "
                "out, because this agent does not mask padding (masks_padding); further ones are "
                "counted."
            )
        self.num_left_out += 1
        self._left_out_in_a_row += 1
        if self._left_out_in_a_row == MOST_LEFT_OUT:
            raise ConfigError(
                f"The last {MOST_LEFT_OUT:,} episodes were all shorter than {length} env steps, so "
                "none of them was stored. Set shorter sequences (recurrent_sequence_length or "
                "segment_len); or mask padding in the agent of TrainParams.agent_ctor, and set its "
                "masks_padding = True."
            )


class SlotRows:
    """Packs the env steps of one environment, and cuts its rows into the items of a layout.

    After an episode come rows of padding, of step type LAST and discount 0, which learners ignore:
    so many that a sequence begins at each of its steps, or that its last segment is complete.

    Rows leave in pieces, and all rows of an item are in one piece, so that those of several slots
    may follow one another in a stream. A piece is a block; of sequences it is an episode, or a part
    of a long one, which begins with those rows of the part before that its items need.
    """

    def __init__(
        self,
        codec: Codec,
        layout: ItemLayout,
        put: Callable[[Sequence[Row]], None],
        skipped: SkipCounts,
        gamma: float,
        piece_rows: int,
    ):
        """Begins an episode.

        Args:
          codec: Codec of one Step, with single frames.
          layout: Layout of the items.
          put: Receives each piece.
          skipped: Counts what is left out; shared by all slots.
          gamma: See Adder.
          piece_rows: Rows of a piece of sequences; 1 if there is no other slot, so that no row
            waits or is repeated.
        """
        self._codec, self._layout = codec, layout
        self._blank = codec.zeros()
        self._mid = np.float32(MID)  # made once, because `add` is the hot path
        self._put = put
        self._skipped = skipped
        self._gamma = np.float32(gamma)
        self._stores_return = codec.spec.return_so_far != ()
        self._piece_rows = piece_rows
        self._num_repeated = layout.rows - 1 if piece_rows > 1 else 0
        self._block: list[Row] = []  # rows that do not fill a block yet
        self._piece: list[Row] = []  # of sequences
        self._newest: Step | None = None  # of the current episode
        self._return_so_far = np.float32(0)
        self._rows_in_episode = 0

    def add(
        self,
        time_step: ts.TimeStep,
        action: Any,
        next_time_step: ts.TimeStep,
        state: Any = (),
        is_intervention: bool = False,
    ) -> bool:
        """Adds one env step; returns False if its data do not fit the spec.

        The caller must then end the episode, because there would be a gap in the stream.

        Args:
          time_step: Time step before the action.
          action: The action.
          next_time_step: Time step after the action.
          state: The policy's state after the action, stored if the codec has extras; a policy
            without a state, such as a random one, leaves zeros.
          is_intervention: Whether a person has taken the action.
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
        return self._append(step, is_intervention=is_intervention)

    def end_episode(self) -> None:
        """Ends the episode; call it after the last step of each."""
        num_transitions = self._rows_in_episode - self._layout.frame_stack
        if self._layout.is_sequence and num_transitions > 0:
            if self._layout.pads_episodes:
                assert self._newest is not None, "the end of a transition"
                padding = self._blank._replace(
                    step_type=np.float32(LAST), observation=self._newest.observation
                )
                self._append(padding, self._layout.num_padding(num_transitions))
            elif not self._layout.ends_sequence(num_transitions):
                self._skipped.leave_out()
        if any(row.completes_item for row in self._piece):
            self._put(self._piece)
        self._piece = []
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

    def _append(self, step: Step, num_times: int = 1, is_intervention: bool = False) -> bool:
        """Appends a row, and the items that it completes; returns False if it is rejected."""
        try:
            columns = self._codec.pack(step)
        except ValueError as error:
            self._skipped.reject(str(error))
            return False
        self._newest = step
        for _ in range(num_times):
            self._rows_in_episode += 1
            if self._layout.is_block:
                self._append_to_block(Row(columns, False, is_intervention))
            else:
                self._append_to_piece(columns, is_intervention)
        return True

    def _append_to_block(self, row: Row) -> None:
        self._block.append(row)
        if len(self._block) == self._layout.rows:
            self._put([*self._block[:-1], row._replace(completes_item=True)])
            self._block = self._block[self._layout.length :]

    def _append_to_piece(self, columns: list[NDArray[Any]], is_intervention: bool) -> None:
        num_transitions = self._rows_in_episode - self._layout.frame_stack
        ends = num_transitions > 0 and self._layout.ends_sequence(num_transitions)
        if ends:
            self._skipped.keep()
        self._piece.append(Row(columns, ends, is_intervention))
        if len(self._piece) >= self._piece_rows:
            self._put(self._piece)
            begin = len(self._piece) - self._num_repeated
            self._piece = [row._replace(completes_item=False) for row in self._piece[begin:]]
