"""Passes the env steps of an episode to a recorder."""

import pathlib
from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.collection.taken_actions import TakenActions
from tfagents_system.demonstrations.recorder import Recorder


class Recording:
    """Passes the env steps of `run_episode` to a recorder, with the actions that were taken."""

    def __init__(self, recorder: Recorder, horizon: int, environment: py_environment.PyEnvironment):
        """Takes the env steps after which an episode is cut, and the environment that is run."""
        self._recorder = recorder
        self._horizon = horizon
        self._environment = environment
        self._actions = TakenActions(environment.action_spec())
        self._length = 0
        self.file: pathlib.Path | None = None  # of the last complete episode

    def observe(
        self,
        time_step: Any,
        action: Any,
        next_time_step: Any,
        state: Any = (),
        is_ended: bool = False,
    ) -> bool:
        """Records an env step; `is_ended` cuts the episode after it.

        Raises:
          TakenActionError: If the info reports something that is not an action.
        """
        if self._length == 0:
            self._actions = TakenActions(self._environment.action_spec())
            self._recorder.reset(time_step.observation)
        action = self._actions.taken(action, self._environment.get_info())
        self._length += 1
        is_over = bool(next_time_step.is_last()) or is_ended or self._length == self._horizon
        is_terminal = is_over and float(next_time_step.discount) == 0
        self.file = self._recorder.step(
            action, next_time_step.observation, next_time_step.reward, is_terminal, is_over
        )
        if is_over:
            self._length = 0
        return True

    def drop(self) -> None:
        """Drops the episode."""
        self._length = 0
        self.file = None
