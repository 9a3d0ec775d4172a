"""Guards every call of an environment as a visit of user code."""

from collections.abc import Callable
from typing import Any

from tf_agents.environments import py_environment, wrappers
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.processes import Process
from tfagents_system.environments.adapter import EnvironmentAdapter
from tfagents_system.environments.layers import py_layers
from tfagents_system.environments.own_arrays import own


class GuestEnvironment(wrappers.PyEnvironmentBaseWrapper):
    """Wraps the environment of the user's `env_ctor` for our programs.

    What a call raises, also SystemExit, becomes a UserCodeError; process state that it changes is
    restored (core/process/guest.py). Other attributes than those of PyEnvironment are passed on.
    """

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        started: frozenset[Process] = frozenset(),
    ):
        """Wraps and owns `environment`; `started` are the processes of its constructor."""
        super().__init__(environment)
        self.started = started
        self._name = type(getattr(environment, "gym", environment)).__name__
        self._step_name = f"{self._name}.step"  # made once, because a step is the hot path
        self._own_info = _own_info(environment)

    def _reset(self) -> ts.TimeStep:
        return GUEST.call_often(f"{self._name}.reset", self._env.reset)

    def _step(self, action: Any) -> ts.TimeStep:
        time_step = GUEST.call_often(self._step_name, self._env.step, action)
        if not GUEST.has_stepped:
            GUEST.note_step()
        return time_step

    def get_info(self) -> Any:
        """Returns the info of the last step; None if the environment has none."""
        if self._own_info is not None:  # a tenth of the time of a call of user code
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
    """Returns what reads an environment's info without a call of user code; None if nothing can."""
    for layer in py_layers(environment):
        method = getattr(type(layer), "get_info", None)
        if method is EnvironmentAdapter.get_info:
            return layer.get_info
        if method is py_environment.PyEnvironment.get_info:
            return lambda: None  # it has none
        if method is not wrappers.PyEnvironmentBaseWrapper.get_info:
            break
    return None


class OwnActions(wrappers.PyEnvironmentBaseWrapper):
    """Hands each env step a copy of its action, which a wrapper outside may repeat."""

    def _step(self, action: Any) -> ts.TimeStep:
        return self._env.step(own(action))


def as_made(environment: Any) -> Any:
    """Returns the environment that `env_ctor` has returned."""
    guests = (layer for layer in py_layers(environment) if isinstance(layer, GuestEnvironment))
    guest = next(guests, None)
    return environment if guest is None else guest.wrapped_env()
