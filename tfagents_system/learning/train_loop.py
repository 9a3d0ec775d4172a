"""The compiled loop of train steps."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_system.learning.sources import Mixer
from tfagents_system.learning.train_step import TrainStep

LARGEST_METRIC = 1e20  # losses are only this large on their way to infinity


class StepResult(NamedTuple):
    """The data and results of one train step."""

    metrics: dict[str, tf.Tensor]
    columns: tuple[tf.Tensor, ...]  # the packed minibatch
    keys: list[tf.Tensor]  # keys [N] of the items of each source's part, or [0] if unknown


class LoopResult(NamedTuple):
    """The result of one call of the loop."""

    is_sane: tf.Tensor  # bool []: metrics are below LARGEST_METRIC, variables are finite
    sums: dict[str, tf.Tensor]  # means of the metrics over all train steps
    last_steps: list[StepResult]  # steps of the last iteration


class TrainLoop:
    """Runs many train steps in one call of a compiled function.

    Each iteration of the loop has `unrolled` train steps. Iterations run one after another, but
    within an iteration, one core can begin a step while another still finishes the one before.
    """

    def __init__(self, train_step: TrainStep, mixer: Mixer, unrolled: int):
        """Traces nothing yet; `mixer` makes the minibatches."""
        self._train_step = train_step
        self._mixer = mixer
        self._unrolled = unrolled
        self._call = tf.function(self._train_steps, autograph=False, reduce_retracing=True)

    @property
    def num_traces(self) -> int:
        """Number of times that the loop was traced, which takes seconds; once suffices."""
        return self._call.experimental_get_tracing_count()

    def compile(self, iterators: Sequence[Iterator[Any]]) -> None:
        """Compiles the loop, which takes seconds, without taking data from `iterators`."""
        self(iterators, 0)

    def __call__(self, iterators: Sequence[Iterator[Any]], num_steps: int) -> LoopResult:
        """Does `num_steps` train steps, a multiple of `unrolled`; stops after a bad one.

        `iterators` are the iterators of the mixer's sources.
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
            # Between the last step's losses and this step, so that only the wait is measured.
            samples, waits = mixer.wait(iterators, self._unrolled, after=sums)
            steps = []
            for of_step in samples:
                # No part of a step may run before its data has come, which may never happen.
                with tf.control_dependencies(list(waits.values())):
                    minibatch = tuple(map(tf.identity, mixer.mix(of_step, drawn)))
                    metrics = self._train_step(minibatch) | waits
                    drawn = mixer.renew(of_step)  # for the next step, in parallel to this one
                names[:] = metrics
                keys = mixer.keys(of_step)
                steps.append((tf.stack(list(metrics.values())), minibatch, keys))
            values = tf.stack([of_step for of_step, *_ in steps])
            is_sane = tf.reduce_all(tf.abs(values) < LARGEST_METRIC)
            sums += tf.reduce_sum(values, axis=0)
            return index + self._unrolled, is_sane, sums, steps, drawn

        # All metrics in one vector, which costs the loop less.
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
            values = tf.broadcast_to(values, [len(names)])  # a zero if there was no step
            return dict(zip(names, tf.unstack(values), strict=True))

        # A gradient may be NaN even if the loss is not.
        is_sane = tf.logical_and(is_sane, are_finite(self._train_step.variables))
        last_steps = [StepResult(named(values), *minibatch) for values, *minibatch in steps]
        return LoopResult(is_sane, named(sums), last_steps)


def are_finite(variables: list[tf.Variable]) -> tf.Tensor:
    """Returns whether all numbers in floating point `variables` are finite: bool []."""
    floating = [variable for variable in variables if variable.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable)) for variable in floating])
