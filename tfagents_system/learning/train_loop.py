"""The compiled loop of train steps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_system.learning.sampling_pool import SamplingPool, keys_of
from tfagents_system.learning.train_step import TrainStep

LARGEST_METRIC = 1e20  # losses grow to this only on their way to infinity


class StepResult(NamedTuple):
    """What one train step gave and took."""

    metrics: dict[str, tf.Tensor]
    columns: tuple[tf.Tensor, ...]  # the packed minibatch
    keys: tf.Tensor  # [B] of its items in the replay table, or [0] if they are not known


class LoopResult(NamedTuple):
    """What one call of the loop gave."""

    is_sane: tf.Tensor  # bool []: metrics are below LARGEST_METRIC, variables are finite
    sums: dict[str, tf.Tensor]  # of the metrics over all train steps
    last_steps: list[StepResult]  # those of the last iteration


class TrainLoop:
    """Many train steps in one call of a function that is compiled once.

    The loop has `unrolled` train steps in one iteration. Iterations wait for each other, but within
    one a step begins on a core that the step before has left.
    """

    def __init__(self, train_step: TrainStep, pool: SamplingPool | None, unrolled: int):
        """Traces nothing yet; `pool` None takes minibatches from the iterator as they come."""
        self._train_step = train_step
        self._pool = pool
        self._unrolled = unrolled
        self._call = tf.function(self._train_steps, autograph=False, reduce_retracing=True)

    @property
    def num_traces(self) -> int:
        """How often the loop has been traced, which costs seconds; once is enough."""
        return self._call.experimental_get_tracing_count()

    def compile(self, iterator: Iterator[Any]) -> None:
        """Makes later calls begin at once; blocks for seconds, takes nothing from `iterator`."""
        self(iterator, 0)

    def __call__(self, iterator: Iterator[Any], num_steps: int) -> LoopResult:
        """Does `num_steps` train steps, a multiple of `unrolled`; stops when one is not sane."""
        return self._call(iterator, tf.constant(num_steps))

    def graph(self, iterator: Iterator[Any]) -> tf.Graph:
        """Returns the graph of the loop."""
        return self._call.get_concrete_function(iterator, tf.constant(0)).graph

    def _train_steps(self, iterator, num_steps):
        pool, names = self._pool, []  # the metrics' names are known after tracing
        spec = iterator.element_spec.data if pool is None else pool.minibatch_spec
        nothing = tuple(tf.zeros(column.shape, column.dtype) for column in spec)
        no_keys = tf.zeros([0], tf.int64)

        def goes_on(index, is_sane, *_):
            return tf.logical_and(index < num_steps, is_sane)

        def iteration(index, _, sums, __, sampled):
            fresh, wait_secs = self._wait_for_data(iterator, after=sums)
            steps = []
            for sample in fresh:
                items, keys = sample.data, keys_of(sample)
                # Nothing of a step is done before its data is there, which may never be.
                with tf.control_dependencies([wait_secs]):
                    minibatch = tuple(map(tf.identity, items if pool is None else sampled))
                    metrics = self._train_step(minibatch) | {"data_wait_secs": wait_secs}
                    if pool is not None:  # beside the train step, for the next one
                        pool.add(items, keys)
                        sampled = pool.draw()
                names[:] = metrics
                keys = no_keys if keys is None or pool is not None else keys
                steps.append((tf.stack(list(metrics.values())), minibatch, keys))
            values = tf.stack([of_step for of_step, *_ in steps])
            is_sane = tf.reduce_all(tf.abs(values) < LARGEST_METRIC)
            sums += tf.reduce_sum(values, axis=0)
            return index + self._unrolled, is_sane, sums, steps, sampled

        # One vector of all metrics, because the loop handles one for less.
        zeros, shapes = tf.zeros([1]), tuple(column.shape for column in spec)
        _, is_sane, sums, steps, _ = tf.while_loop(
            goes_on,
            iteration,
            [
                tf.constant(0), tf.constant(True), zeros,
                [(zeros, nothing, no_keys)] * self._unrolled,
                nothing if pool is None else pool.draw(),
            ],
            shape_invariants=[
                tf.TensorShape([]), tf.TensorShape([]), tf.TensorShape([None]),
                [(tf.TensorShape([None]), shapes, tf.TensorShape([None]))] * self._unrolled, shapes,
            ],
        )  # fmt: skip

        def named(values):
            values = tf.broadcast_to(values, [len(names)])  # one zero if there was no step
            return dict(zip(names, tf.unstack(values), strict=True))

        # A gradient may be NaN where the loss is not.
        is_sane = tf.logical_and(is_sane, are_finite(self._train_step.variables))
        last_steps = [StepResult(named(values), *minibatch) for values, *minibatch in steps]
        return LoopResult(is_sane, named(sums), last_steps)

    def _wait_for_data(self, iterator, after):
        """Returns what comes for each step of an iteration, and how long each has to wait."""
        # After the last step's losses and before this step: the wait alone is between them.
        with tf.control_dependencies([after]):
            asked_at = tf.timestamp()
        with tf.control_dependencies([asked_at]):
            fresh = [next(iterator) for _ in range(self._unrolled)]
        with tf.control_dependencies(tf.nest.flatten(fresh)):
            arrived_at = tf.timestamp()
        return fresh, tf.cast(arrived_at - asked_at, tf.float32) / self._unrolled


def are_finite(variables: list[tf.Variable]) -> tf.Tensor:
    """Returns whether all numbers of the floating point `variables` are finite: bool []."""
    floating = [variable for variable in variables if variable.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable)) for variable in floating])
