"""Keeps the whole replay buffer in the learner's memory, so that draws depend only on the seed."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.learning.sources import Minibatch, iterator_of

MAX_BYTES = 2 * 10**9

# Returns the items of the round that was collected with a train step's policy, columns
# [N, rows, size], and whether they replace all earlier ones; or None if it is not complete within a
# number of seconds.
TakeRound = Callable[[int, float], tuple[Sequence[NDArray[Any]], bool] | None]


def check_fits(reader: SampleReader, capacity: int) -> None:
    """Raises ConfigError if a WholeBuffer of `capacity` items would need more than MAX_BYTES."""
    num_bytes = capacity * sum(math.prod(spec.shape) * spec.dtype.size for spec in reader.columns)
    if num_bytes > MAX_BYTES:
        raise ConfigError(
            f"SAC_DETERMINISTIC is 1, so that the learner keeps the whole replay buffer: "
            f"{capacity:,} items, {num_bytes:,} bytes; expected at most {MAX_BYTES:,}. "
            "Lower n_episodes_in_buffer."
        )


class WholeBuffer:
    """A ring of items in the order of arrival.

    buffer.add(items)
    minibatch = buffer.draw()
    """

    def __init__(self, reader: SampleReader, capacity: int, batch_size: int, seed: int):
        """Reserves the buffer; the system allocates memory as it fills.

        Args:
          reader: Reads the items.
          capacity: In items.
          batch_size: Samples per minibatch.
          seed: Seed of the draws.

        Raises:
          ConfigError: If it needs more than MAX_BYTES.
        """
        check_fits(reader, capacity)
        self._reader = reader
        self._batch_size = batch_size
        self._rng = np.random.default_rng(seed)
        self._columns = [
            np.zeros([capacity, *spec.shape], spec.dtype.as_numpy_dtype) for spec in reader.columns
        ]
        self._are_samples = np.zeros([capacity, reader.layout.samples], bool)
        self._starts = np.empty([0, 2], int)  # (item, row) of each sample
        self._next_item = 0

    @property
    def minibatch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """The specs of the columns [B, window, size] that `draw` returns."""
        shape = [self._batch_size, self._reader.layout.window]
        return tuple(
            tf.TensorSpec(shape + spec.shape[1:], spec.dtype) for spec in self._reader.columns
        )

    def add(self, items: Sequence[NDArray[Any]]) -> None:
        """Adds `items`, columns [N, rows, size]."""
        capacity = len(self._are_samples)
        newest = [column[-capacity:] for column in items]
        places = (self._next_item + np.arange(len(newest[0]))) % capacity
        for column, values in zip(self._columns, newest, strict=True):
            column[places] = values
        self._are_samples[places] = self._reader.are_samples(newest).numpy()
        self._starts = np.argwhere(self._are_samples)
        self._next_item = (self._next_item + len(places)) % capacity

    def clear(self) -> None:
        """Removes all items."""
        self._are_samples[:] = False
        self._next_item = 0

    def draw(self) -> tuple[NDArray[Any], ...]:
        """Returns a minibatch [B, window, size], drawn with replacement."""
        chosen = self._starts[self._rng.integers(len(self._starts), size=self._batch_size)]
        item, first_row = chosen[:, :1], chosen[:, 1:]
        rows = first_row + np.arange(self._reader.layout.window)
        return tuple(column[item, rows] for column in self._columns)


class RoundMinibatches:
    """The minibatches of a deterministic run: an iteration's are drawn after its round has come.

    Each train step takes one, so the data of a train step do not depend on timing.
    """

    def __init__(
        self,
        buffer: WholeBuffer,
        take_round: TakeRound,
        num_steps_per_iter: int,
        timeout_secs: float,
    ):
        """Takes no round yet."""
        self._buffer = buffer
        self._take_round = take_round
        self._num_steps_per_iter = num_steps_per_iter
        self._timeout_secs = timeout_secs
        self._num_rounds = 0  # number of iterations whose round is in the buffer

    def iterator(self, train_step: int) -> Iterator[Any]:
        """Returns an iterator over the minibatches of the train steps from `train_step` on.

        Only one may be used at a time. It ends if a round does not come within the timeout.
        """

        def minibatches() -> Iterator[Minibatch]:
            for step in itertools.count(train_step):
                if not self._has_round_of(step // self._num_steps_per_iter):
                    return
                yield Minibatch(self._buffer.draw())

        dataset = tf.data.Dataset.from_generator(
            minibatches, output_signature=Minibatch(self._buffer.minibatch_spec)
        )
        return iterator_of(dataset)

    def _has_round_of(self, iteration: int) -> bool:
        if iteration < self._num_rounds:
            return True
        taken = self._take_round(iteration * self._num_steps_per_iter, self._timeout_secs)
        if taken is None:
            return False
        items, is_whole = taken
        if is_whole:
            self._buffer.clear()
        self._buffer.add(items)
        self._num_rounds = iteration + 1
        return True
