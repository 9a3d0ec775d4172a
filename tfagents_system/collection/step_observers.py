"""Calls the user's observers as a TF-Agents driver would."""

from collections.abc import Callable
from typing import Any

from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.settings.hooks import call_hook
from tfagents_system.environments.own_arrays import own


class StepObservers:
    """Calls the observers of a TrainParams hook at the env steps of one environment.

    Each gets the `Trajectory` of each env step; leaves have no batch axis. An episode that is cut
    at the horizon ends with next_step_type LAST. Boundary steps, from the end of an episode to the
    next reset, are left out, because no action causes them.
    """

    def __init__(self, hook: Callable[..., Any], worker_id: int, horizon: int):
        """Makes the observers by calling `hook`.

        Args:
          hook: `train_observers_ctor` or `eval_observers_ctor`; may have a parameter `id`.
          worker_id: Value of `id`.
          horizon: Env steps after which an episode is cut.

        Raises:
          ConfigError: If `hook` does not return a list of callables.
        """
        observers = call_hook(hook, id=worker_id)
        if not isinstance(observers, (list, tuple)) or not all(map(callable, observers)):
            raise ConfigError(
                f"TrainParams.{hook.__name__} returned {observers!r}; expected a list of "
                "functions that take a tf_agents Trajectory."
            )
        # With names for messages, made once, because a step is the hot path.
        self._observers = [(f"{each!r} of TrainParams.{hook.__name__}", each) for each in observers]
        self._horizon = horizon
        self._length = 0

    def __len__(self) -> int:
        """Returns the number of observers."""
        return len(self._observers)

    def __call__(self, time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep) -> None:
        """Calls the observers in order.

        Raises:
          UserCodeError: If one raises; its exception is the cause.
        """
        self._length = 1 if time_step.step_type == ts.StepType.FIRST else self._length + 1
        if self._length == self._horizon:
            next_time_step = next_time_step._replace(step_type=ts.StepType.LAST)
        step = trajectory.from_transition(time_step, policy_step.PolicyStep(action), next_time_step)
        for name, observer in self._observers:
            GUEST.call_often(name, observer, own(step))
