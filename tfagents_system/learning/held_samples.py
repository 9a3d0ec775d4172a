"""A source of samples in the learner's memory that never change."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import Transition
from tfagents_system.learning.sources import Minibatch, Source, iterator_of


def held_source(
    name: str,
    columns: Sequence[tf.Tensor],
    starts: NDArray[Any],
    window: int,
    num_samples: int,
    seed: int,
    train_step: tf.Variable,
) -> Source:
    """Returns a source that draws windows of rows, with replacement.

    What it draws for a train step depends only on `seed` and that step, so a resumed run continues
    with the same draws as one that was never stopped.

    Args:
      name: For metrics.
      columns: Rows [R, size], held once.
      starts: First rows of the windows [S].
      window: Rows of a sample.
      num_samples: Samples in each minibatch.
      seed: Seed of the draws.
      train_step: Counts the train steps done.
    """
    firsts = tf.constant(starts)

    def draw(step: tf.Tensor) -> Minibatch:
        chosen = tf.random.stateless_uniform(
            [num_samples], [tf.cast(seed, tf.int64), step], maxval=len(starts), dtype=tf.int32
        )
        return Minibatch(_windows(columns, tf.gather(firsts, chosen), window))

    def make_iterator() -> Iterator[Any]:
        steps = tf.data.Dataset.counter(start=int(train_step.numpy()))
        return iterator_of(steps.map(draw).prefetch(2))

    return Source(name, num_samples, make_iterator)


def random_transitions(
    columns: Sequence[tf.Tensor], starts: NDArray[Any], reader: SampleReader
) -> Callable[[tf.Tensor], Transition]:
    """Returns a function that draws n samples of `held_source`, with replacement."""
    firsts = tf.constant(starts)

    def draw(count: tf.Tensor) -> Transition:
        chosen = tf.random.uniform([count], maxval=len(starts), dtype=tf.int32)
        return transitions_at(columns, tf.gather(firsts, chosen), reader)

    return draw


def transitions_at(
    columns: Sequence[tf.Tensor], firsts: tf.Tensor, reader: SampleReader
) -> Transition:
    """Returns the samples whose first rows are `firsts` [n]."""
    return reader.unpack(_windows(columns, firsts, reader.layout.window))


def _windows(columns: Sequence[tf.Tensor], firsts: tf.Tensor, window: int) -> tuple[tf.Tensor, ...]:
    """Returns the `window` rows from each of `firsts` [n] on, [n, window, size] of each column."""
    rows = firsts[:, tf.newaxis] + tf.range(window)
    return tuple(tf.gather(column, rows) for column in columns)
