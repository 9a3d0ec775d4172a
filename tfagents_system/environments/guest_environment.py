"""Guards every call of an environment as a visit of user code."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tf_agents.environments import py_environment, wrappers
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.processes import Process
from tfagents_system.environments.adapter import EnvironmentAdapter, as_reward
from tfagents_system.environments.agents_environment import AgentsEnvironment
from tfagents_system.environments.layers import py_layers
from tfagents_system.environments.own_arrays import own

_FIRST, _LAST = int(ts.StepType.FIRST), int(ts.StepType.LAST)


class GuestEnvironment(wrappers.PyEnvironmentBaseWrapper):
    """Wraps the environment of the user's `env_ctor` for our programs.

    Whatever a call raises, even SystemExit, becomes a UserCodeError; process state that it changes
    is restored (core/process/guest.py). Attributes that PyEnvironment lacks are passed on.

    An episode may only begin by a reset or after the end of another one; otherwise a step from one
    to the next would be learned. A reward may be an array of one number.
    """

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        started: frozenset[Process] = frozenset(),
    ):
        """Wraps and owns `environment`; `started` are the processes of its constructor."""
        super().__init__(environment)
        self.started = started
        self._name = owner_of(environment)
        self._step_name = f"{self._name}.step"  # made once, because a step is the hot path
        self._own_info = _own_info(environment)

    def _reset(self) -> ts.TimeStep:
        time_step = GUEST.call_often(f"{self._name}.reset", self._env.reset)
        step_type = getattr(time_step, "step_type", _FIRST)
        if step_type != _FIRST:
            raise ConfigError(
                f"{self._name}.reset returned a time step of step type {step_type}; expected "
                "FIRST (0), as of ts.restart(observation)."
            )
        return time_step

    def _step(self, action: Any) -> ts.TimeStep:
        time_step = GUEST.call_often(self._step_name, self._env.step, action)
        if not GUEST.has_stepped:
            GUEST.note_step()
        try:
            is_first, reward = time_step.step_type == _FIRST, time_step.reward
        except AttributeError:  # not a time step, which ReplaceableEnvironment rejects
            return time_step
        if is_first:
            self._check_begins()
        if type(reward) is np.ndarray and reward.ndim:  # such as [1]
            return GUEST.call_often(self._step_name, _with_number, time_step)
        return time_step

    def _check_begins(self) -> None:
        """Checks that an episode that has begun in a step follows the end of another one."""
        before = self._current_time_step
        if before is not None and before.step_type != _LAST:
            raise ConfigError(
                f"{self._step_name} began another episode (step type FIRST) before the end of the "
                "one before, whose last observation is missing; expected a last time step, as of "
                "ts.termination or ts.truncation, and then the reset."
            )

    def get_info(self) -> Any:
        """Returns the info of the last step; None if the environment has none."""
        if self._own_info is not None:  # takes a tenth of the time of a call of user code
            return self._own_info()

        def get_info() -> Any:
            try:
                return self._env.get_info()
            except NotImplementedError:
                return None

        return GUEST.call_often(f"{self._name}.get_info", get_info)

    def observation_spec(self) -> types.NestedArraySpec:
        """Returns the spec of observations."""
        return GUEST.call_often(f"{self._name}.observation_spec", self._env.observation_spec)

    def action_spec(self) -> types.NestedArraySpec:
        """Returns the spec of actions."""
        return GUEST.call_often(f"{self._name}.action_spec", self._env.action_spec)

    def reward_spec(self) -> types.NestedArraySpec:
        """Returns the spec of rewards."""
        return GUEST.call_often(f"{self._name}.reward_spec", self._env.reward_spec)

    def time_step_spec(self) -> ts.TimeStep:
        """Returns the spec of time steps."""
        return GUEST.call_often(f"{self._name}.time_step_spec", self._env.time_step_spec)

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns the picture that the environment renders."""
        with GUEST.visit(f"{self._name}.render"):
            return self._env.render(mode)

    def set_state(self, state: Any) -> None:
        """Sets a state of the curriculum."""
        with GUEST.visit(f"{self._name}.set_state"):
            self._env.set_state(state)

    def close(self) -> None:
        """Closes the environment."""
        with GUEST.visit(f"{self._name}.close"):
            self._env.close()


def _own_info(environment: Any) -> Callable[[], Any] | None:
    """Returns a function that reads the info without calling user code; None if there is none."""
    for layer in py_layers(environment):
        method = getattr(type(layer), "get_info", None)
        if method is EnvironmentAdapter.get_info:
            return layer.get_info
        if method is py_environment.PyEnvironment.get_info:
            return lambda: None  # it has none
        if method is not wrappers.PyEnvironmentBaseWrapper.get_info:
            break
    return None


def owner_of(environment: Any) -> str:
    """Returns the class name of the user's environment, for messages."""
    if isinstance(environment, (EnvironmentAdapter, AgentsEnvironment)):
        return environment.owner
    return type(getattr(environment, "gym", environment)).__name__


def _with_number(time_step: ts.TimeStep) -> ts.TimeStep:
    return time_step._replace(reward=as_reward(time_step.reward))


class OwnActions(wrappers.PyEnvironmentBaseWrapper):
    """Hands each env step a copy of its action, which a wrapper outside may repeat."""

    def _step(self, action: Any) -> ts.TimeStep:
        return self._env.step(own(action))


def as_made(environment: Any) -> Any:
    """Returns the environment that `env_ctor` has returned."""
    guests = (layer for layer in py_layers(environment) if isinstance(layer, GuestEnvironment))
    guest = next(guests, None)
    return environment if guest is None else guest.wrapped_env()
