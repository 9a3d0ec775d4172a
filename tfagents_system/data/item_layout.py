"""The layout of env steps in the items of the experience table."""

import dataclasses
import functools
import math
from fractions import Fraction

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.minibatches import num_fresh_samples, num_replay_samples
from tfagents_system.core.settings.training_settings import TrainingSettings

LARGEST_BLOCK = 8  # transitions of vectors
MOST_ROWS_PER_TRANSITION = Fraction(6, 5)  # with stacked frames, where only bytes matter


@dataclasses.dataclass(frozen=True)
class ItemLayout:
    """The layout of an item: `rows` consecutive steps of a worker's stream.

    A block has the steps of up to `length` transitions, of any episodes: the last `frame_stack` +
    `n_step` - 1 rows of a block are written again as the first of the next, so that each transition
    begins one sample. A sequence has `length` transitions of one episode, padded at the end; one
    begins at each step but an episode's last `burn_in`, since it would train none. Segments
    overlap only by `burn_in` transitions. A single transition is a sequence of one.

    A sample is a window of `window` rows of an item: two, plus the frames before them if frames are
    stacked, plus the rows after them for a return over `n_step` transitions.
    """

    length: int  # transitions per item, >= 1
    is_sequence: bool = False
    frame_stack: int = 1  # per image observation; the stream repeats an episode's first frame
    is_segment: bool = False  # sequences overlap only by `burn_in`
    burn_in: int = 0  # first transitions of a sequence, which enter no loss
    n_step: int = 1  # transitions over which a return sums rewards; more than 1 only in blocks
    num_copies: int = 0  # of each transition, with other goals; see collection/goal_relabelling.py
    goals_change: bool = False  # within a copy of an episode
    pads_episodes: bool = True  # of sequences; False for an agent that does not mask padding

    @classmethod
    def from_settings(cls, settings: TrainingSettings) -> "ItemLayout":
        """Derives the layout from the settings.

        An item costs the server, the network and the learner about as much with one transition as
        with several. The learner's pool mixes blocks; without a pool, the transitions of a
        minibatch must be drawn independently.

        Raises:
          ConfigError: If no block size stores stacked frames with little repetition.
        """
        frame_stack = settings.frame_stack
        if settings.recurrent:
            if settings.segment_len:
                burn_in = settings.burn_in_len
                return cls(settings.segment_len, True, frame_stack, True, burn_in)
            length = settings.recurrent_sequence_length
            return cls(length, True, frame_stack, burn_in=settings.burn_in_len)
        num_fresh, num_copies = num_fresh_samples(settings), settings.her_copies
        goals_change = num_copies > 0 and settings.her_strategy == "future"
        if num_fresh == num_replay_samples(settings):
            return cls(1, frame_stack=frame_stack, num_copies=num_copies, goals_change=goals_change)
        n_step = settings.n_step_returns
        if frame_stack == 1:
            length = math.gcd(num_fresh, LARGEST_BLOCK)
            return cls(length, n_step=n_step, num_copies=num_copies, goals_change=goals_change)
        length = _block_of_frames(num_fresh, frame_stack + n_step - 1)
        return cls(length, frame_stack=frame_stack, n_step=n_step)

    @property
    def is_block(self) -> bool:
        """Whether items are blocks, in which each window may be a sample."""
        return (self.length > 1 or self.n_step > 1) and not self.is_sequence

    @property
    def rows(self) -> int:
        """Steps per item."""
        return self.length + self.frame_stack + self.n_step - 1

    @property
    def window(self) -> int:
        """Consecutive rows of an item that make one sample."""
        return self.frame_stack + self.n_step if self.is_block else self.rows

    @property
    def samples(self) -> int:
        """Samples per item; fewer if episodes meet within a block."""
        return self.rows - self.window + 1

    @property
    def row_stride(self) -> int:
        """Rows between the ends of successive items of an episode."""
        return self.rows if self.is_block else self._stride

    @property
    def num_new(self) -> int:
        """Rows of an item that the previous item of the same episode or block lacks."""
        return self.length if self.is_block else self._stride

    @property
    def _stride(self) -> int:
        """Transitions between the beginnings of successive sequences."""
        return self.length - self.burn_in if self.is_segment else 1

    def items_per_episode(self, horizon: int) -> Fraction:
        """Returns the number of items of a full episode of `horizon` transitions and its copies.

        It is the expected number if goals change within copies.
        """
        if self.is_block:
            goals = _expected_goals(horizon) if self.goals_change else Fraction(1)
            rows = horizon + self.frame_stack + self.num_copies * (horizon + goals)
            return rows / self.length
        num_items = 1 + (horizon + self.num_padding(horizon) - self.length) // self._stride
        return Fraction(max(1, num_items) * (1 + self.num_copies))

    def ends_sequence(self, num_transitions: int) -> bool:
        """Returns whether a sequence ends with this transition of an episode, counted from 1.

        Rows of padding are counted, too.
        """
        after_first = num_transitions - self.length
        return after_first >= 0 and after_first % self._stride == 0

    def num_padding(self, num_transitions: int) -> int:
        """Returns the rows of padding after an episode of `num_transitions`.

        They complete the last segment, or the sequence that trains the last step alone; they always
        complete the sequence of the first step.
        """
        if not (self.is_sequence and self.pads_episodes):
            return 0
        if not self.is_segment:
            return self.length - min(1 + self.burn_in, num_transitions)
        if num_transitions <= self.length:
            return self.length - num_transitions
        return (self.length - num_transitions) % self._stride

    def samples_in(self, num_items: int, horizon: int) -> int:
        """Returns the number of samples in `num_items` items of full episodes, without copies."""
        per_episode = Fraction(horizon) if self.is_block else self.items_per_episode(horizon)
        return round(num_items * per_episode / self.items_per_episode(horizon))

    def __str__(self) -> str:
        """Returns the layout in words, for messages."""
        kind = "a segment" if self.is_segment else "a block" if self.is_block else "a sequence"
        stacked = f", {self.frame_stack} frames stacked" if self.frame_stack > 1 else ""
        returns = f", for {self.n_step}-step returns" if self.n_step > 1 else ""
        return f"{kind} of {self.rows} steps{stacked}{returns}"


@functools.cache
def _expected_goals(horizon: int) -> Fraction:
    """Returns the mean number of goals in a copy of an episode: 1 + 1/2 + ... + 1/horizon.

    The goal of a transition with n states after it is new with probability 1/n.
    """
    mean = math.fsum(1 / left for left in range(1, horizon + 1))
    return Fraction(mean).limit_denominator(10**6)  # exact ones have hundreds of digits


def _block_of_frames(num_fresh: int, repeated: int) -> int:
    """Returns the smallest block whose repeated frames cost at most a fifth."""
    smallest = math.ceil(repeated / (MOST_ROWS_PER_TRANSITION - 1))
    for length in range(smallest, num_fresh + 1):
        if num_fresh % length == 0:
            return length
    raise ConfigError(
        f"frame_stack + n_step_returns - 1 = {repeated} needs blocks of at least {smallest} "
        f"transitions, because each repeats {repeated} frames, but fresh_samples_per_step = "
        f"{num_fresh}, of which a block must be a divisor. Use a multiple of "
        f"{1 << (smallest - 1).bit_length()}."
    )


SINGLE = ItemLayout(1)
