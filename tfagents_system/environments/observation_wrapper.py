"""The base class of wrappers that change observations."""

import abc
from typing import Any

from tf_agents.environments import py_environment, wrappers
from tf_agents.trajectories import time_step as ts


class ObservationWrapper(wrappers.PyEnvironmentBaseWrapper, abc.ABC):
    """Replaces the observation of each time step, and its spec: subclasses set `_spec`."""

    def __init__(self, environment: py_environment.PyEnvironment):
        """Wraps and owns `environment`; `_spec` is its spec until a subclass sets another."""
        super().__init__(environment)
        self._spec: Any = environment.observation_spec()

    def observation_spec(self) -> Any:
        """Returns the spec of the new observation."""
        return self._spec

    def _reset(self) -> ts.TimeStep:
        return self._observed(self._env.reset())

    def _step(self, action: Any) -> ts.TimeStep:
        return self._observed(self._env.step(action))

    def _observed(self, time_step: ts.TimeStep) -> ts.TimeStep:
        return time_step._replace(observation=self._observe(time_step))

    @abc.abstractmethod
    def _observe(self, time_step: ts.TimeStep) -> Any:
        """Returns the new observation of `time_step`; called once for each, in order.

        `time_step` is a first one after a reset, or after a step that has reset the environment.
        """
