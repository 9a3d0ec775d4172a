"""The compiled loop of train steps."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_system.learning.sources import Mixer
from tfagents_system.learning.train_step import TrainStep

LARGEST_METRIC = 1e20  # losses grow to this only on their way to infinity


class StepResult(NamedTuple):
    """What one train step gave and took."""

    metrics: dict[str, tf.Tensor]
    columns: tuple[tf.Tensor, ...]  # the packed minibatch
    keys: list[tf.Tensor]  # [N] of the items of each source's part, or [0] if they are not known


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

    def __init__(self, train_step: TrainStep, mixer: Mixer, unrolled: int):
        """Traces nothing yet; `mixer` makes the minibatches."""
        self._train_step = train_step
        self._mixer = mixer
        self._unrolled = unrolled
        self._call = tf.function(self._train_steps, autograph=False, reduce_retracing=True)

    @property
    def num_traces(self) -> int:
        """How often the loop has been traced, which costs seconds; once is enough."""
        return self._call.experimental_get_tracing_count()

    def compile(self, iterators: Sequence[Iterator[Any]]) -> None:
        """Makes later calls begin at once; blocks for seconds, takes nothing from `iterators`."""
        self(iterators, 0)

    def __call__(self, iterators: Sequence[Iterator[Any]], num_steps: int) -> LoopResult:
        """Does `num_steps` train steps, a multiple of `unrolled`; stops when one is not sane.

        `iterators` are those of the mixer's sources.
        """
        return self._call(iterators, tf.constant(num_steps))

    def graph(self, iterators: Sequence[Iterator[Any]]) -> tf.Graph:
        """Returns the graph of the loop."""
        return self._call.get_concrete_function(iterators, tf.constant(0)).graph

    def _train_steps(self, iterators: Sequence[Iterator[Any]], num_steps: tf.Tensor) -> LoopResult:
        mixer = self._mixer
        names: list[str] = []  # the metrics' names are known after tracing
        spec = mixer.minibatch_spec(iterators)
        nothing = tuple(tf.zeros(column.shape, column.dtype) for column in spec)
        no_keys = [tf.zeros([0], tf.int64) for _ in iterators]

        def goes_on(index: tf.Tensor, is_sane: tf.Tensor, *_: Any) -> tf.Tensor:
            return tf.logical_and(index < num_steps, is_sane)

        def iteration(
            index: tf.Tensor, _: tf.Tensor, sums: tf.Tensor, __: Any, drawn: Any
        ) -> tuple[Any, ...]:
            # After the last step's losses and before this step: the wait alone is between them.
            samples, waits = mixer.wait(iterators, self._unrolled, after=sums)
            steps = []
            for of_step in samples:
                # Nothing of a step is done before its data is there, which may never be.
                with tf.control_dependencies(list(waits.values())):
                    minibatch = tuple(map(tf.identity, mixer.mix(of_step, drawn)))
                    metrics = self._train_step(minibatch) | waits
                    drawn = mixer.renew(of_step)  # beside the train step, for the next one
                names[:] = metrics
                keys = mixer.keys(of_step)
                steps.append((tf.stack(list(metrics.values())), minibatch, keys))
            values = tf.stack([of_step for of_step, *_ in steps])
            is_sane = tf.reduce_all(tf.abs(values) < LARGEST_METRIC)
            sums += tf.reduce_sum(values, axis=0)
            return index + self._unrolled, is_sane, sums, steps, drawn

        # One vector of all metrics, because the loop handles one for less.
        zeros, shapes = tf.zeros([1]), tuple(column.shape for column in spec)
        _, is_sane, sums, steps, _ = tf.while_loop(
            goes_on,
            iteration,
            [
                tf.constant(0), tf.constant(True), zeros,
                [(zeros, nothing, no_keys)] * self._unrolled,
                drawn := mixer.draw(),
            ],
            shape_invariants=[
                tf.TensorShape([]), tf.TensorShape([]), tf.TensorShape([None]),
                [(tf.TensorShape([None]), shapes, [tf.TensorShape([None])] * len(iterators))]
                * self._unrolled,
                tf.nest.map_structure(lambda column: column.shape, drawn),
            ],
        )  # fmt: skip

        def named(values: tf.Tensor) -> dict[str, tf.Tensor]:
            values = tf.broadcast_to(values, [len(names)])  # one zero if there was no step
            return dict(zip(names, tf.unstack(values), strict=True))

        # A gradient may be NaN where the loss is not.
        is_sane = tf.logical_and(is_sane, are_finite(self._train_step.variables))
        last_steps = [StepResult(named(values), *minibatch) for values, *minibatch in steps]
        return LoopResult(is_sane, named(sums), last_steps)


def are_finite(variables: list[tf.Variable]) -> tf.Tensor:
    """Returns whether all numbers of the floating point `variables` are finite: bool []."""
    floating = [variable for variable in variables if variable.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable)) for variable in floating])
