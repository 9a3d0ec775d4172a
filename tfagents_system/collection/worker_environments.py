"""A worker's environments, and the observers of their steps."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.interventions import Interventions
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.process.watchdog import Watchdog
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.films.camera import Camera
from tfagents_system.policies.acting import ActingPolicy

MAX_FAILURES = 50  # failures of environments in a worker's life
MIN_SECS = 60.0  # before these count, because a start takes seconds
_BEGAN = time.monotonic()


class Environments(NamedTuple):
    """The environments of one worker, for collection and for evaluation."""

    collect: ReplaceableEnvironment
    eval: ReplaceableEnvironment
    collect_observers: StepObservers
    eval_observers: StepObservers
    eval_camera: Camera
    watchdog: Watchdog  # ends the process if an environment hangs
    numbers: InfoNumbers | None = None  # read from the info of both
    curriculum: Curriculum = Curriculum()  # of the collect environment
    episode_seed: Callable[..., int] = functools.partial(derive_seed, 0, SeedPurpose.CURRICULUM)

    @property
    def are_worn(self) -> bool:
        """Whether so many have failed that a new process is worthwhile, to free their memory."""
        num_failures = self.collect.num_failures + self.eval.num_failures
        return num_failures >= MAX_FAILURES and time.monotonic() - _BEGAN > MIN_SECS

    def close(self) -> None:
        """Closes both environments, in bounded time."""
        self.eval.close()
        self.collect.close()

    def set_parameters(
        self, iteration: int, lessons: Sequence[int], env_step: int
    ) -> dict[str, int | float]:
        """Gives the collect environment the curriculum's values of its next episode.

        Args:
          iteration: The newest policy's.
          lessons: The newest policy's.
          env_step: The worker's; it and the number of failures make each episode's seed.

        Returns:
          The values.

        Raises:
          EnvironmentFailure: If the environment does not accept them.
        """
        seed = self.episode_seed(env_step=env_step, num_failures=self.collect.num_failures)
        state = self.curriculum.state_at(iteration, lessons, seed)
        self.collect.set_state(state)
        return state

    def run_collect_episode(
        self,
        policy: ActingPolicy,
        horizon: int,
        observe: Callable[[ts.TimeStep, Any, ts.TimeStep, Any], bool],
        timer: PhaseTimer,
    ) -> Episode:
        """Runs an episode of collection; see `run_episode`.

        `observe` gets the action that was taken, if the info reports another than the policy's.

        Raises:
          EnvironmentFailure: If the environment or its constructor fails.
        """
        interventions = Interventions(self.collect.current().action_spec())

        def observe_taken(
            time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
        ) -> bool:
            taken = interventions.taken(action, self.collect.get_info())
            return observe(time_step, taken, next_time_step, state)

        with self.collect.judged():
            episode = run_episode(self.collect, policy, horizon, observe_taken, timer, self.numbers)
        return episode._replace(numbers={**episode.numbers, **interventions.numbers})

    def run_greedy_episode(
        self,
        policy: ActingPolicy,
        horizon: int,
        film_name: str | None,
        goes_on: Callable[[], bool],
    ) -> Episode:
        """Runs an evaluation episode.

        Args:
          policy: Chooses the actions.
          horizon: Maximum number of env steps.
          film_name: Name of the film; None: no film.
          goes_on: Called after each env step; False ends the episode without a film.

        Raises:
          EnvironmentFailure: If the environment or its constructor fails; there is no film then.
        """
        if film_name is not None:
            self.eval_camera.begin(film_name, self.eval.current())

        def observe(
            time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
        ) -> bool:
            if self.eval_observers:
                self.eval_observers(time_step, action, next_time_step)
            if film_name is not None:
                self.eval_camera.observe(next_time_step)
            return goes_on()

        try:
            with self.eval.judged():
                episode = run_episode(self.eval, policy, horizon, observe, numbers=self.numbers)
            if episode.is_complete:
                with OnlyReports("film"):
                    self.eval_camera.end()
            return episode
        finally:
            self.eval_camera.discard()  # a finished film stays
