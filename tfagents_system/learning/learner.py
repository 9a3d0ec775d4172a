"""Runs many train steps per call; a thread compiles, so that the program can respond."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.core.process.background import BackgroundCall, raise_failures
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.learning.divergence import DivergedError, is_sane, suspicious_samples
from tfagents_system.learning.sources import Mixer, Source
from tfagents_system.learning.train_loop import (
    LoopResult,
    StepResult,
    TrainLoop,
    are_finite,
)
from tfagents_system.learning.train_step import TrainStep
from tfagents_system.rewards.signals import RewardSignals
from tfagents_system.rewards.streams import RewardStreams

CALL_SECS = 0.5  # per call, between publishing and checks for a stop
MAX_STEPS_PER_CALL = 1000
UNROLLED_STEPS = 5  # steps per iteration of the loop in a long run
UNROLL_AFTER_STEPS = 5000  # in a shorter run, compiling would take longer than it saves
STOP_PERIOD_SECS = 0.1  # between checks of `stop` during compilation
DATA_HAS_ENDED = (
    tf.errors.OutOfRangeError,
    tf.errors.UnavailableError,
    tf.errors.CancelledError,
)


class Learner:
    """Trains an agent on packed minibatches.

    learner = Learner(agent, reader, [Source("replay", 256, make_iterator)])
    metrics = learner.run(50)   # None: no data within the dataset's timeout
    """

    def __init__(
        self,
        agent: tf_agent.TFAgent,
        reader: SampleReader,
        sources: Sequence[Source],
        reward_signals: RewardSignals | RewardStreams | None = None,
        unrolls: bool = True,
    ):
        """Traces nothing yet.

        Args:
          agent: Increments the train step; see `TrainStep`.
          reader: Unpacks a minibatch to a Transition.
          sources: Each provides its part of every minibatch.
          reward_signals: Trained, and added to the rewards of each minibatch; None: no signals.
          unrolls: Whether a long run changes to a loop of UNROLLED_STEPS, which is faster on
            several cores with a small graph.
        """
        train_step = TrainStep(agent, reader, reward_signals)
        self._reader = reader
        self._mixer = Mixer(sources)
        self._iterators: list[Iterator[Any]] | None = None
        self._waits_for: str | None = None
        self._unrolls = unrolls
        self._steps_per_call = 1  # the first call measures a step
        self._num_steps = 0  # train steps done by this object
        self._loops = {n: TrainLoop(train_step, self._mixer, n) for n in (1, UNROLLED_STEPS)}
        self._compilations: dict[int, BackgroundCall] = {}
        self._are_variables_finite = tf.function(
            lambda: are_finite(train_step.variables), autograph=False
        )

    @property
    def waits_for(self) -> str | None:
        """Name of the source whose missing data ended the last call of `run`."""
        return self._waits_for

    @property
    def num_traces(self) -> int:
        """Number of times that loops were compiled, which takes seconds: at most 2 in a run."""
        return sum(
            self._loops[unrolled].num_traces
            for unrolled, compilation in self._compilations.items()
            if compilation.is_done()
        )

    @property
    def is_compiling(self) -> bool:
        """Whether the loop that the first train step needs is being compiled."""
        return 1 in self._compilations and not self._compilations[1].is_done()

    def is_compiled(self, unrolled: int, wait_secs: float = 0.0) -> bool:
        """Starts to compile a loop unless it has started; returns whether it is ready.

        Blocks for at most `wait_secs`. There must have been data before.
        """
        if unrolled not in self._compilations:
            call = functools.partial(self._loops[unrolled].compile, self._iterators)
            self._compilations[unrolled] = BackgroundCall(call)
        return self._compilations[unrolled].is_done(wait_secs)

    def run(
        self,
        max_steps: int,
        stop: object = False,
        while_compiling: Callable[[], None] | None = None,
    ) -> dict[str, float] | None:
        """Does train steps for about CALL_SECS, at most `max_steps`.

        Blocks while the rate limiter holds learning back, and at the first call while the loop is
        compiled; meanwhile, it calls `while_compiling` several times a second. Returns, for
        `MetricMeans`, the means over all steps of the agent's scalar metrics and of
        `data_wait_secs`, the time that a step waited for the replay server. Returns None if the
        data ended before the last step: the steps done count, the next call continues, and data for
        fewer than UNROLLED_STEPS may be lost. Also returns None if `stop` becomes true while the
        loop is compiled.

        Raises:
          DivergedError: If a metric is not finite or reaches LARGEST_METRIC, or a variable of the
            agent is not finite. Fewer than UNROLLED_STEPS train steps follow that one.
        """
        raise_failures()
        try:
            if self._iterators is None:
                self._iterators = self._mixer.open()
            while not self.is_compiled(1, STOP_PERIOD_SECS):
                if while_compiling is not None:
                    while_compiling()
                if stop:
                    return None
            started = time.monotonic()
            num_steps = min(self._steps_per_call, max_steps)
            unrolled = self._unrolled_for(num_steps)
            num_steps -= num_steps % unrolled
            result: LoopResult = self._loops[unrolled](self._iterators, num_steps)
        except (*DATA_HAS_ENDED, TimeoutError):
            self._iterators = None
            self._waits_for = self._mixer.asked
            self._steps_per_call = 1  # data for several might never come within one timeout
            if not self._are_variables_finite():  # after steps whose metrics are lost
                raise DivergedError({}, None) from None
            return None
        if not result.is_sane:
            raise self._diverged(result.last_steps)
        self._waits_for = None
        self._num_steps += num_steps
        metrics = {name: float(value) / num_steps for name, value in result.sums.items()}
        in_time = int(num_steps * CALL_SECS / (time.monotonic() - started))
        self._steps_per_call = min(max(1, in_time), MAX_STEPS_PER_CALL)
        return metrics

    def _unrolled_for(self, num_steps: int) -> int:
        """Returns the steps per iteration for `num_steps`: 1 while the other loop is compiled."""
        pays = self._unrolls and self._num_steps >= UNROLL_AFTER_STEPS
        if pays and num_steps >= UNROLLED_STEPS and self.is_compiled(UNROLLED_STEPS):
            return UNROLLED_STEPS
        return 1

    def _diverged(self, steps: Sequence[StepResult]) -> DivergedError:
        """Returns the error of the first of `steps` with bad metrics, or of the last one."""
        for step in steps:
            metrics = {name: float(value) for name, value in step.metrics.items()}
            if not all(map(is_sane, metrics.values())):
                break
        columns = [column.numpy() for column in step.columns]
        minibatch = self._reader.unpack(columns)
        samples = list(suspicious_samples(minibatch))
        keys = [of_part.numpy() for of_part in step.keys]
        found = self._mixer.keys_of_samples(samples, columns, keys)
        return DivergedError(metrics, minibatch, found)
