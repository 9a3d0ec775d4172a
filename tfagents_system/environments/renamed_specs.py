"""Gives the specs of observations other names, which tell what the arrays are."""

from collections.abc import Mapping
from typing import Any

import tree
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts


class RenamedSpecs(wrappers.PyEnvironmentBaseWrapper):
    """Leaves observations as they are, and renames their specs."""

    def __init__(self, environment: py_environment.PyEnvironment, names: Mapping[str, str]):
        """Wraps and owns `environment`; `names` of specs are by those of `named_specs`."""
        super().__init__(environment)
        self._spec = tree.map_structure_with_path(
            lambda path, spec: spec.replace(name=names.get(array_name(path), spec.name)),
            environment.observation_spec(),
        )

    def observation_spec(self) -> Any:
        """Returns the specs with their names."""
        return self._spec

    def _reset(self) -> ts.TimeStep:
        return self._env.reset()

    def _step(self, action: Any) -> ts.TimeStep:
        return self._env.step(action)


def array_name(path: tuple[Any, ...]) -> str:
    """Returns the name of an observation's array in settings, from its path in the nest.

    It has "/" between the keys of nested dicts; an observation that is one array is "observation".
    """
    return "/".join(map(str, path)) or "observation"


def named_specs(environment: py_environment.PyEnvironment) -> dict[str, array_spec.ArraySpec]:
    """Returns the specs of an observation's arrays by their names in settings."""
    found = tree.flatten_with_path(environment.observation_spec())
    return {array_name(path): spec for path, spec in found}
