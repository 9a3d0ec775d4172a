"""Checks whether networks can be conditioned on the goals of an observation."""

import tree

from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.core.observation_kinds import is_entities, is_goal
from tfagents_system.data.images import is_image


def check_goal_conditioning(settings: AgentParams, observation_spec: Nest) -> None:
    """Raises ConfigError if an observation has goals, but another setting does not fit them."""
    goals = [spec for spec in tree.flatten(observation_spec) if is_goal(spec)]
    if not goals:
        return
    shown = ", ".join(spec.name.partition(".")[0] for spec in goals)
    where = (
        f"TrainParams.goal_conditioning_type is 'hyper', and the observation has goals ({shown})"
    )
    none = "expected goal_conditioning_type = 'none', by which goals are inputs like others"
    for spec in goals:
        if is_image(spec) or is_entities(spec):
            kind = "an image" if is_image(spec) else "a list of entities"
            raise ConfigError(f"{where}, of which one is {kind}; {none}.")
    if settings.preprocessing_combiner is not None:
        raise ConfigError(f"{where}, but there is a preprocessing_combiner; {none}.")
    if not ALGORITHMS[settings.algorithm].has_goal_conditioning:
        raise ConfigError(
            f"{where}, but algorithm is {settings.algorithm!r}, which normalizes batches between "
            f"its layers; {none}."
        )
    for name in ("actor_fc_layer_params", "critic_joint_fc_layer_params"):
        if not getattr(settings, name):
            raise ConfigError(f"{where}, but {name} has no layer to generate; {none}.")
