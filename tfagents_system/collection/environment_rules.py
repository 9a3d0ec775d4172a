"""Checks the environments of a worker against each other and against settings."""

from collections.abc import Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.params import Params
from tfagents_system.environments.guest_environment import GuestEnvironment, as_made
from tfagents_system.environments.layers import have_common
from tfagents_system.environments.vector_adapter import GymnasiumVectorEnvironment


def check_apart(params: Params, collect: Sequence[Any], evaluation: Any) -> None:
    """Raises ConfigError if environments that have episodes or values of their own are one.

    Args:
      params: The user's TrainParams.
      collect: The environments for collection.
      evaluation: The environment for evaluations.
    """
    is_shared = have_common(evaluation, collect[0])
    if params.eval_period_itrs and params.env_config.get("curriculum") and is_shared:
        raise ConfigError(
            "The config has a curriculum, and eval_env_args_kwargs makes an environment of "
            "collect_env; expected one of its own, because evaluations keep the values of the "
            "constructor. Without evaluations, set eval_period_itrs = 0."
        )
    if len(collect) == 1:
        return
    name = f"TrainParams.envs_per_worker is {params.envs_per_worker}"
    if len({id(as_made(environment)) for environment in collect}) < len(collect):
        raise ConfigError(
            f"{name}, but env_ctor has returned the same environment twice; expected a new one "
            "for each call."
        )
    if is_shared:
        raise ConfigError(
            f"{name}, but eval_env_args_kwargs makes an environment of collect_env; expected an "
            "environment of its own, because episodes of collection go on after an evaluation."
        )


def check_slots(
    params: Params, collect: Sequence[Any], evaluation: Any, numbers: Sequence[int]
) -> int:
    """Returns the number of slots of each environment for collection.

    Args:
      params: The user's TrainParams.
      collect: The environments for collection.
      evaluation: The environment for evaluations.
      numbers: `num_slots_of` each of `collect`.

    Raises:
      ConfigError: If a setting does not go with several.
    """
    num_slots, *others = numbers
    if differing := [other for other in others if other != num_slots]:
        raise ConfigError(
            f"TrainParams.envs_per_worker is {params.envs_per_worker}, but env_ctor has returned "
            f"environments with {num_slots} and {differing[0]} agents; expected an equal number."
        )
    if num_slots == 1:
        return 1
    what = f"an environment with {num_slots} environments or agents"
    settings = {"her_copies": 0, "action_repeat": 1, "frame_stack": 1, "time_aware": False}
    for name, allowed in settings.items():
        if (value := getattr(params, name)) != allowed:
            raise ConfigError(
                f"TrainParams.{name} is {value}, but env_ctor returns {what}; expected {allowed}."
            )
    if have_common(evaluation, collect[0]):
        raise ConfigError(
            f"env_ctor returns {what}, and eval_env_args_kwargs makes an environment of "
            "collect_env; expected one of its own, because an evaluation begins all episodes "
            "anew."
        )
    is_wrapped = not isinstance(collect[0], GuestEnvironment)
    if isinstance(as_made(collect[0]), GymnasiumVectorEnvironment) and (
        params.env_config.get("curriculum") or is_wrapped
    ):
        raise ConfigError(
            "env_ctor returns a vector environment of gymnasium. It can have no curriculum, no "
            "masks of actions, and no image_layouts, entity_observations, goal_observations or "
            'goal_conditioning_type = "none"; set envs_per_worker, and return a single environment.'
        )
    return num_slots


def check_lock_step(num_slots: int) -> None:
    """Raises ConfigError if the worker of a deterministic run has several slots."""
    if num_slots > 1:
        raise ConfigError(
            f"The worker has {num_slots} environments (envs_per_worker, or those of one "
            "simulator); expected 1 in a deterministic run, because rounds end with the episodes "
            "of one."
        )
