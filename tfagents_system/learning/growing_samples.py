"""A source of samples in the learner's memory, to which more are added."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.learning.sources import Minibatch, Source, iterator_of

LOOK_PERIOD_SECS = 1.0


class GrowingSamples:
    """Samples in memory; none is ever removed.

    samples.add(columns, starts)
    part = samples.draw(rng, 128)
    """

    def __init__(
        self,
        columns: Sequence[NDArray[Any]],
        starts: NDArray[Any],
        window: int,
        max_bytes: int,
        log: Callable[[str], None] = print,
    ):
        """Begins with some samples, or none.

        Args:
          columns: Rows [R, size], which are copied when more are added.
          starts: First rows of the samples.
          window: Rows of a sample.
          max_bytes: Largest size of all rows.
          log: Receives a line when that size is reached.
        """
        self._columns, self._starts = [*columns], starts.astype(np.int64)
        self._num_rows, self._num_starts = len(columns[0]), len(starts)
        self._num_at_first = len(starts)
        self._window, self._log = window, log
        row_bytes = sum(column.itemsize * column.shape[1] for column in columns)
        self._most_rows = max(self._num_rows, max_bytes // row_bytes)
        self._has_told = False

    @property
    def num_added(self) -> int:
        """Number of samples added."""
        return self._num_starts - self._num_at_first

    def add(self, columns: Sequence[NDArray[Any]], starts: NDArray[Any]) -> None:
        """Adds samples of the rows `columns` [R, size]; leaves out those that do not fit."""
        num_rows = min(len(columns[0]), self._most_rows - self._num_rows)
        if num_rows < len(columns[0]):
            self._tell_of_lack()
            starts = starts[starts + self._window <= num_rows]
        self._columns = [
            _extended(held, self._num_rows, new[:num_rows])
            for held, new in zip(self._columns, columns, strict=True)
        ]
        self._starts = _extended(self._starts, self._num_starts, self._num_rows + starts)
        self._num_rows, self._num_starts = self._num_rows + num_rows, self._num_starts + len(starts)

    def draw(self, rng: np.random.Generator, most: int) -> tuple[NDArray[Any], ...]:
        """Returns [N, window, size] of each column, drawn with replacement.

        N is `most`, or the number of samples if there are fewer and all have been added.
        """
        count = most if self._num_at_first else min(most, self._num_starts)
        chosen = rng.integers(max(1, self._num_starts), size=count)
        rows = self._starts[chosen][:, np.newaxis] + np.arange(self._window)
        return tuple(column[rows] for column in self._columns)

    @property
    def part_spec(self) -> tuple[tf.TensorSpec, ...]:
        """The specs of the columns [N, window, size] that `draw` returns."""
        return tuple(
            tf.TensorSpec([None, self._window, *column.shape[1:]], column.dtype)
            for column in self._columns
        )

    def _tell_of_lack(self) -> None:
        if not self._has_told:
            self._has_told = True
            self._log(f"WARNING: demonstrations and {self.num_added:,} interventions fill the "
                      f"{self._most_rows:,} env steps that the learner may hold of them. Further "
                      "interventions are on disk and in the replay buffer, but not held for good.",
                      )  # fmt: skip


def growing_source(
    name: str,
    samples: GrowingSamples,
    look: Callable[[], None],
    num_samples: int,
    seed: int,
    train_step: tf.Variable,
) -> Source:
    """Returns a source whose part of a minibatch may lack samples while there are few.

    Args:
      name: For metrics.
      samples: Drawn from in a thread of the newest iterator.
      look: Adds new samples; called in that thread once a second.
      num_samples: Samples in each minibatch.
      seed: Seed of the draws.
      train_step: Counts the train steps done.
    """
    lock = threading.Lock()  # an abandoned iterator may still be running

    def make_iterator() -> Iterator[Any]:
        rng = np.random.default_rng([seed, int(train_step.numpy())])
        looked_at = -LOOK_PERIOD_SECS

        def minibatches() -> Iterator[Minibatch]:
            nonlocal looked_at
            while True:
                with lock:
                    if time.monotonic() - looked_at >= LOOK_PERIOD_SECS:
                        look()
                        looked_at = time.monotonic()
                    part = samples.draw(rng, num_samples)
                yield Minibatch(part)

        dataset = tf.data.Dataset.from_generator(
            minibatches, output_signature=Minibatch(samples.part_spec)
        )
        return iterator_of(dataset.prefetch(2))

    return Source(name, num_samples, make_iterator, may_lack=True)


def _extended(held: NDArray[Any], size: int, new: NDArray[Any]) -> NDArray[Any]:
    """Returns `new` after the first `size` rows of `held`, in `held` itself if it has space."""
    end = size + len(new)
    if end > len(held):
        grown = np.empty((max(end, 2 * size), *held.shape[1:]), held.dtype)
        grown[:size] = held[:size]
        held = grown
    held[size:end] = new
    return held
