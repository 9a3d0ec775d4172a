"""Tells which arrays of an observation are images, where their shape does not."""

from collections.abc import Mapping
from typing import Any

import tree
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.images import GRAY, VECTOR, name_with_layout


class ImageLayouts(wrappers.PyEnvironmentBaseWrapper):
    """Names specs of observations such that `data/images.py` finds the layouts that are given."""

    def __init__(self, environment: py_environment.PyEnvironment, layouts: Mapping[str, str]):
        """Wraps and owns `environment`.

        Args:
          environment: Its observations stay as they are.
          layouts: By names of arrays, with "/" between the keys of nested dicts; the name of an
            observation that is one array is "observation".

        Raises:
          ConfigError: If there is no such array, or it has another number of axes.
        """
        super().__init__(environment)
        specs = environment.observation_spec()
        named = {array_name(path): spec for path, spec in tree.flatten_with_path(specs)}
        for name, layout in layouts.items():
            _check(name, layout, named)
        self._spec = tree.map_structure_with_path(
            lambda path, spec: _with_layout(spec, layouts.get(array_name(path))), specs
        )

    def observation_spec(self) -> Any:
        """Returns the specs with their layouts."""
        return self._spec

    def _reset(self) -> ts.TimeStep:
        return self._env.reset()

    def _step(self, action: Any) -> ts.TimeStep:
        return self._env.step(action)


def array_name(path: tuple[Any, ...]) -> str:
    """Returns the name of an observation's array in `image_layouts`, from its path in the nest."""
    return "/".join(map(str, path)) or "observation"


def _check(name: str, layout: str, specs: Mapping[str, array_spec.ArraySpec]) -> None:
    where = f"TrainParams.image_layouts has {layout!r} for {name!r}"
    if name not in specs:
        raise ConfigError(
            f"{where}, which the observation of the environment has not; allowed are "
            f"{', '.join(specs)}."
        )
    shape = specs[name].shape
    if layout != VECTOR and len(shape) != len(layout):
        allowed = "HWC, CHW or vector" if len(shape) == 3 else f"{GRAY} or vector"
        allowed = allowed if len(shape) in (2, 3) else VECTOR
        raise ConfigError(f"{where}, whose shape is {list(shape)}; allowed is {allowed} then.")


def _with_layout(spec: array_spec.ArraySpec, layout: str | None) -> array_spec.ArraySpec:
    if layout is None:
        return spec
    return spec.replace(name=name_with_layout(spec.name, layout))
