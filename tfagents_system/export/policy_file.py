"""Acts with a policy in a Python file, such as the runner of an exported policy."""

import pathlib
import runpy
from typing import Any

import tree
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.core.process.guest import GUEST
from tfagents_system.environments.exact_casts import leaf_cast
from tfagents_system.export.tensorflow_models import named_parts

RUNNER = "run_policy.py"  # in the folder of an exported policy


class FilePolicy:
    """An `ActingPolicy` that acts by the class `Policy` in a file.

    `Policy()` has `action(observation)` and, if it needs it, `reset()`, called before each episode.
    A nested observation is a dict of its parts, as in exported policies; so is a nested action.
    """

    def __init__(self, path: pathlib.Path, action_spec: Nest):
        """Runs `path`, a Python file or the folder of an exported policy.

        Raises:
          ConfigError: If there is no such file, it has no class `Policy`, or two parts of the
            action have the same name.
        """
        file = path / RUNNER if path.is_dir() else path
        if not file.is_file() or file.suffix != ".py":
            raise ConfigError(
                f"{file} is not a policy. Expected a folder that sac export has written, or a "
                "Python file with a class Policy that has a method action(observation)."
            )
        self._name = f"Policy of {file}"
        with GUEST.visit(f"importing {file}"):
            made = runpy.run_path(str(file)).get("Policy")
        if made is None:
            raise ConfigError(f"{file}: defines no class Policy.")
        with GUEST.visit(self._name):
            self._policy = made()
        if not callable(getattr(self._policy, "action", None)):
            raise ConfigError(f"{file}: Policy has no method action(observation).")
        self._action_spec = action_spec
        self._specs = named_parts(action_spec, "action")

    def initial_state(self) -> Any:
        """Begins an episode."""
        if callable(reset := getattr(self._policy, "reset", None)):
            with GUEST.visit(self._name):
                reset()
        return ()

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action, `state`).

        Raises:
          ConfigError: If the action has other parts, another shape or other numbers, such as 0.5
            for an integer, than the environment's, or two parts of the observation have the same
            name.
        """
        observation = time_step.observation
        if tree.is_nested(observation):
            observation = named_parts(observation, "observation")
        with GUEST.visit(self._name):
            action = self._policy.action(observation)
        parts = action if tree.is_nested(self._action_spec) else {"action": action}
        try:
            leaves = [
                leaf_cast(spec)(parts[name]).reshape(spec.shape)
                for name, spec in self._specs.items()
            ]
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            expected = {
                name: f"{spec.dtype} {list(spec.shape)}" for name, spec in self._specs.items()
            }
            raise ConfigError(
                f"{self._name} returned the action {action!r}; expected numbers of these types and "
                f"shapes: {expected}."
            ) from error
        return tree.unflatten_as(self._action_spec, leaves), state
