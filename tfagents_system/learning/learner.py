"""The update loop: many train steps per call, compiled beside the thread that has to answer."""

import functools
import time
from collections.abc import Iterator, Sequence
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

CALL_SECS = 0.5  # between two looks at what else is due: publishing, a stop
MAX_STEPS_PER_CALL = 1000
UNROLLED_STEPS = 5  # in one iteration of the loop of a run that lasts
UNROLL_AFTER_STEPS = 5000  # a shorter run would not earn back the seconds that compiling takes
STOP_PERIOD_SECS = 0.1  # while the loop is compiled, between looks at `stop`
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
        reward_signals: RewardSignals | None = None,
        unrolls: bool = True,
    ):
        """Traces nothing yet.

        Args:
          agent: It increments the train step; see `TrainStep`.
          reader: Unpacks a minibatch into a Transition.
          sources: Each gives its part of every minibatch.
          reward_signals: Are trained, and add rewards to those of each minibatch; None adds none.
          unrolls: Whether a run that lasts changes to a loop of UNROLLED_STEPS, which is faster if
            several cores take part and the agent's graph is small.
        """
        train_step = TrainStep(agent, reader, reward_signals)
        self._reader = reader
        self._mixer = Mixer(sources)
        self._iterators: list[Iterator[Any]] | None = None
        self._waits_for: str | None = None
        self._unrolls = unrolls
        self._steps_per_call = 1  # the first call tells how long a step takes
        self._num_steps = 0  # train steps done by this object
        self._loops = {n: TrainLoop(train_step, self._mixer, n) for n in (1, UNROLLED_STEPS)}
        self._compilations: dict[int, BackgroundCall] = {}
        self._are_variables_finite = tf.function(
            lambda: are_finite(train_step.variables), autograph=False
        )

    @property
    def waits_for(self) -> str | None:
        """Name of the source without whose data the last call of `run` had to end."""
        return self._waits_for

    @property
    def num_traces(self) -> int:
        """How often loops have been compiled, which costs seconds: at most 2 in a run."""
        return sum(
            self._loops[unrolled].num_traces
            for unrolled, compilation in self._compilations.items()
            if compilation.is_done()
        )

    @property
    def is_compiling(self) -> bool:
        """Whether the loop is being compiled that the first train step waits for."""
        return 1 in self._compilations and not self._compilations[1].is_done()

    def is_compiled(self, unrolled: int, wait_secs: float = 0.0) -> bool:
        """Begins to compile a loop if it has not begun; returns whether it is ready.

        Blocks for at most `wait_secs`; there has to have been data before.
        """
        if unrolled not in self._compilations:
            call = functools.partial(self._loops[unrolled].compile, self._iterators)
            self._compilations[unrolled] = BackgroundCall(call)
        return self._compilations[unrolled].is_done(wait_secs)

    def run(self, max_steps: int, stop: object = False) -> dict[str, float] | None:
        """Does as many train steps as take about CALL_SECS, and at most `max_steps`.

        Blocks while the rate limiter holds learning back, and at the first call while the loop is
        compiled. Returns the means of the agent's scalar metrics and of `data_wait_secs`, the time
        a step waited for the replay server; or None if the data ended before the last step: the
        steps done count, and the next call goes on. What had come for fewer than UNROLLED_STEPS may
        be lost then. Returns None, too, if `stop` becomes true while the loop is compiled.

        Raises:
          DivergedError: If a metric is not finite or its size reaches LARGEST_METRIC, or a variable
            of the agent is not finite. After that train step fewer than UNROLLED_STEPS are done.
        """
        raise_failures()
        try:
            if self._iterators is None:
                self._iterators = self._mixer.open()
            while not self.is_compiled(1, STOP_PERIOD_SECS):
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
            self._steps_per_call = 1  # the data of several might never come within one timeout
            if not self._are_variables_finite():  # after steps whose metrics have been lost
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
        """Returns by which loop to do `num_steps`: single steps while the other is compiled."""
        pays = self._unrolls and self._num_steps >= UNROLL_AFTER_STEPS
        if pays and num_steps >= UNROLLED_STEPS and self.is_compiled(UNROLLED_STEPS):
            return UNROLLED_STEPS
        return 1

    def _diverged(self, steps: Sequence[StepResult]) -> DivergedError:
        """Returns the error of the first of `steps` whose metrics show it, or of the last one."""
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
