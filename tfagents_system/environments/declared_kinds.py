"""Marks the arrays of an observation that settings declare to be images, entities or goals."""

from collections.abc import Mapping, Sequence
from typing import Any

import tree
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.observation_kinds import ENTITIES, GOAL, marked, unmarked
from tfagents_system.data.images import GRAY, VECTOR, name_with_layout


class DeclaredKinds(wrappers.PyEnvironmentBaseWrapper):
    """Leaves observations unchanged, and gives their specs names that tell the kinds of arrays.

    `core/observation_kinds.py` and `data/images.py` read these names.
    """

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        layouts: Mapping[str, str],
        entities: Sequence[str],
        goals: Sequence[str],
        has_goals: bool = True,
    ):
        """Wraps and owns `environment`.

        Args:
          environment: Its observations stay unchanged.
          layouts: The layouts of images, or VECTOR, by names of arrays; see `array_name`.
          entities: Names of the lists of entities.
          goals: Names of the goals.
          has_goals: False turns goals into ordinary arrays, even those that the environment marks.

        Raises:
          ConfigError: If there is no such array, or it has another number of axes.
        """
        super().__init__(environment)
        spec = environment.observation_spec()
        _check(spec, layouts, entities, goals)

        def named(path: tuple[Any, ...], leaf: array_spec.ArraySpec) -> array_spec.ArraySpec:
            array, name = array_name(path), leaf.name
            if array in layouts:
                name = name_with_layout(name, layouts[array])
            if array in entities:
                name = marked(name, ENTITIES)
            if array in goals:
                name = marked(name, GOAL)
            if name and not has_goals:
                name = unmarked(name, GOAL)
            return leaf.replace(name=name)

        self._spec = tree.map_structure_with_path(named, spec)

    def observation_spec(self) -> Any:
        """Returns the specs with their names."""
        return self._spec


def array_name(path: tuple[Any, ...]) -> str:
    """Returns the name of an observation's array in settings, from its path in the nest.

    It has "/" between the keys of nested dicts; an observation that is one array is "observation".
    """
    return leaf_name(*path) or "observation"


def _check(
    spec: Any, layouts: Mapping[str, str], entities: Sequence[str], goals: Sequence[str]
) -> None:
    shapes = {array_name(path): list(leaf.shape) for path, leaf in tree.flatten_with_path(spec)}

    def shape_of(name: str, where: str) -> list[int]:
        if name not in shapes:
            raise ConfigError(
                f"{where}, which the observation of the environment has not; expected "
                f"{', '.join(shapes)}."
            )
        return shapes[name]

    for name, layout in layouts.items():
        where = f"TrainParams.image_layouts has {layout!r} for {name!r}"
        shape = shape_of(name, where)
        if layout != VECTOR and len(shape) != len(layout):
            allowed = {2: f"{GRAY} or vector", 3: "HWC, CHW or vector"}.get(len(shape), VECTOR)
            raise ConfigError(f"{where}, whose shape is {shape}; expected {allowed}.")
    for name in entities:
        where = f"TrainParams.entity_observations has {name!r}"
        if len(shape := shape_of(name, where)) != 2:
            raise ConfigError(
                f"{where}, whose shape is {shape}; expected arrays [most entities, features]."
            )
    for name in goals:
        shape_of(name, f"TrainParams.goal_observations has {name!r}")
