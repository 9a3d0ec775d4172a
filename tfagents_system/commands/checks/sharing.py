"""Finds arrays that an environment and its caller would both write to."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.commands.checks.probes import SEED, are_equal
from tfagents_system.commands.checks.rows import Row, explained
from tfagents_system.environments import own_arrays
from tfagents_system.environments.layers import py_layers
from tfagents_system.policies.acting import RandomPolicy

NUM_STEPS = 5


def check_sharing(environment: py_environment.PyEnvironment) -> Row:
    """Takes some steps, and checks whether the environment and its caller would share an array."""
    watches = [ArrayWatch(owner, name) for owner, name in _user_steps(environment)]
    policy = RandomPolicy(environment.action_spec(), SEED)
    try:
        time_step = own_arrays.reset(environment)
        for _ in range(NUM_STEPS):
            action, _ = policy.action(time_step, ())
            time_step = own_arrays.step(environment, action)
    except Exception as error:
        return Row("arrays", "WRONG", explained(error), "Workers would fail.")
    finally:
        for watch in watches:
            watch.end()
    found = list(dict.fromkeys(fault for watch in watches for fault in watch.faults))
    if not found:
        return Row("arrays", "ok", "it writes into no array that it was given or has returned")
    advice = ("Training is right: it hands out and keeps copies. Other code that steps this "
              "environment may store something else; copy with np.array.")  # fmt: skip
    return Row("arrays", "note", f"step {' and '.join(found)}", advice)


class ArrayWatch:
    """Watches the arrays of a user's method `step`, until `end`."""

    def __init__(self, owner: Any, name: str):
        """Replaces the method in this object only."""
        self.faults: list[str] = []
        self._owner, self._name = owner, name
        self._is_own = name in vars(owner)  # not in the class
        self._step: Callable[[Any], Any] = getattr(owner, name)
        self._returned: list[NDArray[Any]] = []
        setattr(owner, name, self._watched)

    def end(self) -> None:
        """Restores the method."""
        if self._is_own:
            setattr(self._owner, self._name, self._step)
        else:
            delattr(self._owner, self._name)

    def _watched(self, action: Any) -> Any:
        before = own_arrays.own(action)
        result = self._step(action)
        if not are_equal(before, action):
            self.faults.append("writes into its argument, the action")
        # A TimeStep, or the tuple of gym's environments.
        observation = result.observation if isinstance(result, ts.TimeStep) else result[0]
        arrays = [leaf for leaf in tree.flatten(observation) if isinstance(leaf, np.ndarray)]
        if any(np.may_share_memory(a, b) for a in arrays for b in self._returned):
            self.faults.append("returns the same array as before")
        self._returned = arrays
        return result


def _user_steps(environment: py_environment.PyEnvironment) -> Iterator[tuple[Any, str]]:
    """Yields the innermost PyEnvironment, and an adapter's environment, with the method's name."""
    *_, innermost = py_layers(environment)
    yield innermost, "_step"
    adapted = getattr(innermost, "gym", None)
    if callable(getattr(adapted, "step", None)):
        yield adapted, "step"
