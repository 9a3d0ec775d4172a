"""A worker's environments, and the observers of their steps."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection import environment_rules
from tfagents_system.collection.greedy_episodes import GreedyEpisodes
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.side_by_side import SlotEnvironments
from tfagents_system.collection.slot_environments import (
    EnvironmentList,
    JoinedSlots,
    SimulatorSlots,
    num_slots_of,
)
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.collection.taken_actions import TakenActions
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.core.process.watchdog import Watchdog
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.environments.construction import (
    make_collect_environment,
    make_eval_environment,
)
from tfagents_system.environments.headless import draw_unseen
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.films.camera import Camera
from tfagents_system.policies.acting import ActingPolicy

MAX_FAILURES = 50  # failures of environments in a worker's life
MAX_FILM_SECS = 30.0  # for rendering and encoding a film, while the worker does not collect
MIN_SECS = 60.0  # before these count, because a start takes seconds
_BEGAN = time.monotonic()


class Environments(NamedTuple):
    """The environments of one worker, for collection and for evaluation.

    `collect` is that of slot 0, and `others` those of the slots from 1 on, if there are any; each
    may be a simulator with as many slots as the others. The observers are by slot, too.
    """

    collect: ReplaceableEnvironment
    eval: ReplaceableEnvironment
    collect_observers: StepObservers
    eval_observers: StepObservers
    eval_camera: Camera
    watchdog: Watchdog  # ends the process if an environment hangs
    numbers: InfoNumbers | None = None  # read from the info of both
    curriculum: Curriculum = Curriculum()  # of the collect environment
    episode_seed: Callable[..., int] = functools.partial(derive_seed, 0, SeedPurpose.CURRICULUM)
    others: Sequence[ReplaceableEnvironment] = ()
    other_observers: Sequence[StepObservers] = ()

    @property
    def num_slots(self) -> int:
        """Environments for collection, also the slots of a simulator."""
        return 1 + len(self.other_observers)

    @property
    def num_environments(self) -> int:
        """Environments for collection; a simulator with several slots is one."""
        return 1 + len(self.others)

    def slots(self) -> SlotEnvironments:
        """Returns the environments for collection, whose episodes run side by side."""
        every = [self.collect, *self.others]
        if self.num_slots == len(every):
            return EnvironmentList(every)
        simulators = [SimulatorSlots(environment) for environment in every]
        if len(simulators) == 1:
            return simulators[0]
        return JoinedSlots(simulators)

    @property
    def are_worn(self) -> bool:
        """Whether so many have failed that a new process is worthwhile, to free their memory."""
        every = self.collect, self.eval, *self.others
        num_failures = sum(environment.num_failures for environment in every)
        return num_failures >= MAX_FAILURES and time.monotonic() - _BEGAN > MIN_SECS

    def close(self) -> None:
        """Closes all environments, in bounded time."""
        for environment in (self.eval, self.collect, *self.others):
            environment.close()

    def set_parameters(
        self, iteration: int, lessons: Sequence[int], env_step: int
    ) -> dict[str, int | float]:
        """Gives the collect environment the curriculum's values of its next episode.

        Takes the arguments of `parameters`, and returns the values.

        Raises:
          EnvironmentFailure: If the environment does not accept them.
        """
        state = self.parameters(iteration, lessons, env_step)
        self.collect.set_state(state)
        return state

    def parameters(
        self, iteration: int, lessons: Sequence[int], env_step: int, slot: int = 0
    ) -> dict[str, int | float]:
        """Returns the curriculum's values of the next episode of a slot.

        Args:
          iteration: The newest policy's.
          lessons: The newest policy's.
          env_step: The worker's; it and the number of failures make each episode's seed.
          slot: It has seeds of its own.
        """
        every = [self.collect, *self.others]
        environment = every[slot * len(every) // self.num_slots]
        seed = self.episode_seed(env_step=env_step, num_failures=environment.num_failures)
        if slot:
            seed = derive_seed(seed, SeedPurpose.SLOT, index=slot)
        return self.curriculum.state_at(iteration, lessons, seed)

    def run_collect_episode(
        self,
        policy: ActingPolicy,
        horizon: int,
        observe: Callable[[ts.TimeStep, Any, ts.TimeStep, Any, bool], bool],
        timer: PhaseTimer,
    ) -> Episode:
        """Runs an episode of collection; see `run_episode`.

        `observe` gets the action that was taken, if the info reports another than the policy's, and
        at last whether the env step had an intervention.

        Raises:
          EnvironmentFailure: If the environment or its constructor fails.
        """
        actions = TakenActions(self.collect.current().action_spec())

        def observe_taken(
            time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
        ) -> bool:
            taken = actions.taken(action, self.collect.get_info())
            return observe(time_step, taken, next_time_step, state, actions.is_intervention)

        with self.collect.judged():
            episode = run_episode(self.collect, policy, horizon, observe_taken, timer, self.numbers)
        return episode._replace(numbers={**episode.numbers, **actions.numbers})

    def greedy_episodes(self) -> GreedyEpisodes:
        """Returns what runs the episodes of evaluations."""
        numbers = self.numbers or InfoNumbers(())
        return GreedyEpisodes(self.eval, self.eval_observers, self.eval_camera, numbers)


def make_environments(
    run: Run,
    worker_id: int,
    seed: Callable[..., int],
    watchdog: Watchdog,
    collects: bool = True,
) -> Environments:
    """Returns the environments for collection and evaluation; each ever made has its own seed.

    It differs from those of other workers' environments, of other slots', of failed ones, and,
    because `seed` differs, of this worker's environments before a restart. A worker that does not
    collect has one for collection, whose specs it needs.
    """
    params, horizon = run.params, run.horizon

    def make_collect(slot: int, num_failures: int) -> py_environment.PyEnvironment:
        env_seed = seed(SeedPurpose.COLLECT_ENV, num_failures=num_failures)
        if slot:
            env_seed = derive_seed(env_seed, SeedPurpose.SLOT, index=slot)
        return make_collect_environment(params, env_seed, worker_id)

    def make_eval(num_failures: int) -> py_environment.PyEnvironment:
        env_seed = seed(SeedPurpose.EVAL_ENV, num_failures=num_failures)
        return make_eval_environment(params, env_seed, worker_id, collect_env.current())

    num_slots = params.envs_per_worker if collects else 1
    makers = [functools.partial(make_collect, slot) for slot in range(num_slots)]
    collect_env, *others = [ReplaceableEnvironment(make(0), make, watchdog) for make in makers]
    eval_env = ReplaceableEnvironment(make_eval(0), make_eval, watchdog)
    eval_env.pair_with(collect_env)
    every = [environment.current() for environment in (collect_env, *others)]
    environment_rules.check_apart(params, every, eval_env.current())
    if params.video_period_itrs:
        draw_unseen()
    if collects:
        numbers = [environment.ask(num_slots_of) for environment in (collect_env, *others)]
        num_slots *= environment_rules.check_slots(params, every, eval_env.current(), numbers)
    collect_observers, *other_observers = [
        StepObservers(params.train_observers_ctor, worker_id, horizon) for _ in range(num_slots)
    ]
    return Environments(
        collect_env,
        eval_env,
        collect_observers,
        StepObservers(params.eval_observers_ctor, worker_id, horizon),
        Camera(
            horizon, run.paths.training_videos, functools.partial(print, flush=True), MAX_FILM_SECS
        ),
        watchdog,
        InfoNumbers(params.log_info),
        run.curriculum,
        functools.partial(seed, SeedPurpose.CURRICULUM),
        others,
        other_observers,
    )
