"""The specs of a behavior's observations and actions."""

from typing import Any

import numpy as np
from tf_agents.specs import array_spec

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.observation_kinds import ENTITIES, GOAL, marked
from tfagents_system.environments.unity.behaviors import Behavior


def observation_spec(behavior: Behavior) -> dict[str, array_spec.ArraySpec]:
    """Returns the spec of an agent's observation."""
    spec: dict[str, array_spec.ArraySpec] = {}
    for sensor in behavior.sensors:
        name = marked(sensor.name, ENTITIES) if sensor.is_list else sensor.name
        name = marked(name, GOAL) if sensor.is_goal else name
        if sensor.dtype == "uint8":
            spec[sensor.name] = array_spec.BoundedArraySpec(sensor.shape, np.uint8, 0, 255, name)
        else:
            spec[sensor.name] = array_spec.ArraySpec(sensor.shape, np.float32, name)
    if behavior.branches:
        spec[ACTION_MASK] = array_spec.BoundedArraySpec(
            [sum(behavior.branches)], np.float32, 0.0, 1.0, ACTION_MASK
        )
    return spec


def action_spec(behavior: Behavior) -> Any:
    """Returns the spec of an agent's action."""
    parts: dict[str, array_spec.BoundedArraySpec] = {}
    if behavior.num_continuous:
        parts["continuous"] = array_spec.BoundedArraySpec(
            [behavior.num_continuous], np.float32, -1.0, 1.0, "continuous"
        )
    if behavior.branches:
        parts["discrete"] = array_spec.BoundedArraySpec(
            [len(behavior.branches)],
            np.int32,
            np.zeros(len(behavior.branches), np.int32),
            np.array(behavior.branches, np.int32) - 1,
            "discrete",
        )
    return parts if len(parts) == 2 else parts.popitem()[1]
