"""Runs a worker's share of an evaluation."""

import collections
from collections.abc import Callable
from typing import Any

from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.action_shares import ActionShares
from tfagents_system.collection.first_episodes import run_first_episodes
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.slot_environments import SimulatorSlots, num_slots_of
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.films.camera import Camera
from tfagents_system.policies.acting import SlotPolicy


class GreedyEpisodes:
    """Runs episodes in a worker's eval environment; of a simulator with slots, in all at once."""

    def __init__(
        self,
        environment: ReplaceableEnvironment,
        observers: StepObservers,
        camera: Camera,
        numbers: InfoNumbers,
    ):
        """Takes the parts, and owns none."""
        self._environment, self._observers = environment, observers
        self._camera, self._numbers = camera, numbers

    def num_at_once(self) -> int:
        """Returns the most episodes of a call of `run`; may start a simulator.

        Raises:
          EnvironmentFailure: If the environment or its constructor fails.
        """
        return self._environment.ask(num_slots_of)

    def run(
        self,
        policy: SlotPolicy,
        horizon: int,
        num_episodes: int,
        film_name: str | None,
        goes_on: Callable[[], bool],
    ) -> list[Episode]:
        """Runs episodes, of a simulator with slots as `run_first_episodes` does.

        Args:
          policy: Chooses the actions.
          horizon: Maximum number of env steps.
          num_episodes: At most `num_at_once`.
          film_name: Name of a film of the first episode; None: no film.
          goes_on: Called after each env step; False ends the evaluation without a film.

        Returns:
          The complete episodes; none if they have ended early.

        Raises:
          EnvironmentFailure: If the environment or its constructor fails; there is no film then.
        """
        if film_name is not None:
            self._camera.begin(film_name, self._environment.current())
        spec = self._environment.current().action_spec()
        shares = [ActionShares(spec) for _ in range(num_episodes)]
        steps: dict[int, list[Any]] = collections.defaultdict(list)  # for the observers

        def observe(
            slot: int, time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep
        ) -> None:
            shares[slot].add(action)
            if self._observers:
                if slot:
                    steps[slot].append((time_step, action, next_time_step))
                else:
                    self._observers(time_step, action, next_time_step)
            if film_name is not None and slot == 0:
                self._camera.observe(next_time_step)

        def observe_alone(
            time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
        ) -> bool:
            observe(0, time_step, action, next_time_step)
            return goes_on()

        try:
            if self.num_at_once() > 1:
                slots = SimulatorSlots(self._environment)
                episodes = run_first_episodes(
                    slots, policy, horizon, num_episodes, observe, goes_on, self._numbers.log_info
                )
            else:
                with self._environment.judged():
                    episode = run_episode(
                        self._environment, policy, horizon, observe_alone, numbers=self._numbers
                    )
                episodes = [episode] if episode.is_complete else []
            if episodes:
                with OnlyReports("film"):
                    self._camera.end()
        finally:
            self._camera.discard()  # a finished film stays
        for of_slot in steps.values():  # one episode after another, as observers know them
            for step in of_slot:
                self._observers(*step)
        return [
            episode._replace(numbers={**episode.numbers, **share.numbers})
            for episode, share in zip(episodes, shares, strict=False)
        ]
