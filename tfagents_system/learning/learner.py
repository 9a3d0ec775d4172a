"""The update loop: many train steps per call of one compiled function."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from tfagents_system.data.codec import Codec
from tfagents_system.data.transition import Transition
from tfagents_system.learning.sampling_pool import SamplingPool

CALL_SECS = 0.5  # between two looks at what else is due: publishing, a stop
MAX_STEPS_PER_CALL = 1000
# Train steps in one iteration of the loop of a run that lasts. Iterations wait for each other, but
# within one a step begins on a core that the step before has left.
UNROLLED_STEPS = 5
UNROLL_AFTER_STEPS = 5000  # a shorter run would not earn back the seconds that compiling takes
LARGEST_METRIC = 1e20  # losses grow to this only on their way to infinity
DATA_HAS_ENDED = (
    tf.errors.OutOfRangeError,
    tf.errors.UnavailableError,
    tf.errors.CancelledError,
)


def as_experience(transition: Transition) -> trajectory.Transition:
    """Returns the TF-Agents form of a batch of replayed transitions.

    Only `next_time_step.discount` says whether an episode ended; the next step's type is MID.
    """
    step_type = tf.cast(transition.step_type, tf.int32)
    ones = tf.ones_like(transition.reward)
    time_step = ts.TimeStep(step_type, tf.zeros_like(ones), ones, transition.observation)
    next_time_step = ts.TimeStep(
        tf.fill(tf.shape(step_type), ts.StepType.MID),
        transition.reward,
        transition.discount,
        transition.next_observation,
    )
    return trajectory.Transition(
        time_step, policy_step.PolicyStep(transition.action), next_time_step
    )


class TrainStep(NamedTuple):
    """What one train step gave and took."""

    metrics: dict[str, tf.Tensor]
    columns: tuple[tf.Tensor, ...]  # the packed minibatch


class DivergedError(Exception):
    """A train step gave numbers that are not finite, or nearly so."""

    def __init__(self, metrics: dict[str, float], minibatch: Transition | None):
        """Takes the metrics and the minibatch of the last train step, if they are known."""
        bad = [f"{name} {value:g}" for name, value in metrics.items() if not _is_sane(value)]
        super().__init__(", ".join(bad) or "a variable of the agent is not finite")
        self.minibatch = minibatch


def _is_sane(value: float) -> bool:
    return abs(value) < LARGEST_METRIC  # false for NaN


class Learner:
    """Trains an agent on packed minibatches.

    learner = Learner(agent, codec, make_iterator)
    metrics = learner.run(50)   # None: no data within the dataset's timeout
    """

    def __init__(
        self,
        agent: tf_agent.TFAgent,
        codec: Codec,
        make_iterator: Callable[[], Iterator[Any]],
        pool: SamplingPool | None = None,
    ):
        """Traces nothing yet.

        Args:
          agent: Its `train` takes a `trajectory.Transition` and increments the train step.
          codec: Unpacks a minibatch into a Transition.
          make_iterator: Returns a new iterator over packed minibatches, or over the fresh items
            that `pool` takes in each step, or raises TimeoutError; called again after the iterator
            has ended or its server has gone.
          pool: Where minibatches are drawn from; None takes them from the iterator as they come.
        """
        self._agent = agent
        self._codec = codec
        self._make_iterator = make_iterator
        self._iterator: Iterator[Any] | None = None
        self._pool = pool
        self._is_pool_full = False
        self._steps_per_call = 1  # the first call compiles
        self._num_steps = 0  # train steps done by this object
        self._loops = {
            unrolled: tf.function(
                functools.partial(self._train_steps, unrolled),
                autograph=False,
                reduce_retracing=True,
            )
            for unrolled in (1, UNROLLED_STEPS)
        }
        self._are_variables_finite = tf.function(self._check_variables, autograph=False)

    @property
    def num_traces(self) -> int:
        """How often a loop has been compiled, which costs seconds: 2 in a run that lasts."""
        return sum(loop.experimental_get_tracing_count() for loop in self._loops.values())

    def run(self, max_steps: int) -> dict[str, float] | None:
        """Does as many train steps as take about CALL_SECS, and at most `max_steps`.

        Blocks while the rate limiter holds learning back. Returns the means of the agent's scalar
        metrics and of `data_wait_secs`, the time a step waited for the replay server; or None if
        the data ended before the last step: the steps done count, and the next call goes on. What
        had come for fewer than UNROLLED_STEPS may be lost then.

        Raises:
          DivergedError: If a metric is not finite or its size reaches LARGEST_METRIC, or a variable
            of the agent is not finite. After that train step fewer than UNROLLED_STEPS are done.
        """
        try:
            if self._iterator is None:
                self._iterator = self._make_iterator()
            if self._pool is not None and not self._is_pool_full:
                self._pool.fill(self._iterator)
                self._is_pool_full = True
            started = time.monotonic()
            num_steps = min(self._steps_per_call, max_steps)
            is_late = self._num_steps >= UNROLL_AFTER_STEPS
            unrolled = UNROLLED_STEPS if is_late and num_steps >= UNROLLED_STEPS else 1
            num_steps -= num_steps % unrolled
            is_sane, sums, steps = self._loops[unrolled](self._iterator, tf.constant(num_steps))
        except (*DATA_HAS_ENDED, TimeoutError):
            self._iterator = None
            self._steps_per_call = 1  # the data of several might never come within one timeout
            if not self._are_variables_finite():  # after steps whose metrics have been lost
                raise DivergedError({}, None) from None
            return None
        if not is_sane:
            raise self._diverged(steps)
        self._num_steps += num_steps
        metrics = {name: float(value) / num_steps for name, value in sums.items()}
        in_time = int(num_steps * CALL_SECS / (time.monotonic() - started))
        self._steps_per_call = min(max(1, in_time), MAX_STEPS_PER_CALL)
        return metrics

    def _diverged(self, steps: Sequence[TrainStep]) -> DivergedError:
        """Returns the error of the first of `steps` whose metrics show it, or of the last one."""
        for step in steps:
            metrics = {name: float(value) for name, value in step.metrics.items()}
            if not all(map(_is_sane, metrics.values())):
                break
        columns = [column.numpy() for column in step.columns]
        return DivergedError(metrics, self._codec.unpack(columns))

    def _train_steps(self, unrolled, iterator, num_steps):
        """Returns (whether all is sane, sums of the metrics, the last `unrolled` steps).

        `num_steps` is a multiple of `unrolled`. Stops when something is not sane.
        """
        spec = iterator.element_spec.data if self._pool is None else self._pool.minibatch_spec
        # One vector of all metrics, because the loop handles one for less. Their names, and so its
        # length, are known after tracing.
        names: list[str] = []
        zero = tf.compat.v1.placeholder_with_default([0.0], [None])
        columns = tuple(tf.zeros(column.shape, column.dtype) for column in spec)
        drawn = columns if self._pool is None else self._pool.draw()

        def goes_on(index, is_sane, *_):
            return tf.logical_and(index < num_steps, is_sane)

        def body(index, _, sums, __, drawn):
            # After the last step's losses and before this step: the wait alone is between them.
            with tf.control_dependencies([sums]):
                asked_at = tf.timestamp()
            with tf.control_dependencies([asked_at]):
                fresh = [_next_in_this_thread(iterator).data for _ in range(unrolled)]
            with tf.control_dependencies(tf.nest.flatten(fresh)):
                arrived_at = tf.timestamp()
            wait_secs = tf.cast(arrived_at - asked_at, tf.float32) / unrolled
            steps = []
            for items in fresh:
                # Nothing of a step is done before its data is there, which may never be.
                with tf.control_dependencies([arrived_at]):
                    minibatch = tuple(map(tf.identity, items if self._pool is None else drawn))
                    outputs = self._train_step(minibatch) | {"data_wait_secs": wait_secs}
                    if self._pool is not None:  # beside the train step, for the next one
                        self._pool.add(items)
                        drawn = self._pool.draw()
                names[:] = outputs
                steps.append((tf.stack([outputs[name] for name in names]), minibatch))
            metrics = tf.stack([of_step for of_step, _ in steps])
            is_sane = tf.reduce_all(tf.abs(metrics) < LARGEST_METRIC)
            return index + unrolled, is_sane, sums + tf.reduce_sum(metrics, axis=0), steps, drawn

        _, is_sane, sums, steps, _ = tf.while_loop(
            goes_on,
            body,
            [tf.constant(0), tf.constant(True), zero, [(zero, columns)] * unrolled, drawn],
        )
        # A gradient may be NaN where the loss is not.
        is_sane = tf.logical_and(is_sane, self._are_variables_finite())

        def named(metrics):
            return dict(zip(names, tf.unstack(metrics, len(names)), strict=True))

        return (
            is_sane,
            named(sums),
            [TrainStep(named(metrics), columns) for metrics, columns in steps],
        )

    def _check_variables(self) -> tf.Tensor:
        variables = [v for v in self._agent.variables if v.dtype.is_floating]
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(v)) for v in variables])

    def _train_step(self, columns) -> dict[str, tf.Tensor]:
        # What needs no data, such as counting, would be done also when the data has ended.
        with tf.control_dependencies(columns):
            loss_info = self._agent.train(as_experience(self._codec.unpack(columns)))
        return {"loss": tf.cast(loss_info.loss, tf.float32)} | _scalars(loss_info.extra)


def _next_in_this_thread(iterator: Any) -> Any:
    """Does what `next(iterator)` does within a graph, without two changes of thread."""
    (resource,) = tf.nest.flatten(iterator, expand_composites=True)
    spec = iterator.element_spec
    leaves = tf.raw_ops.IteratorGetNextSync(
        iterator=resource,
        output_types=[leaf.dtype for leaf in tf.nest.flatten(spec)],
        output_shapes=[leaf.shape for leaf in tf.nest.flatten(spec)],
    )
    return tf.nest.pack_sequence_as(spec, leaves)


def _scalars(extra: Any) -> dict[str, tf.Tensor]:
    """The scalar fields of an agent's loss info, which may be any NamedTuple or empty."""
    fields = extra._asdict() if hasattr(extra, "_asdict") else {}
    return {
        name: tf.cast(value, tf.float32)
        for name, value in fields.items()
        if tf.is_tensor(value) and value.shape.rank == 0
    }
