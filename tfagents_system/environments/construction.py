"""Builds the environments that a TrainParams describes."""

import sys
from collections.abc import Callable
from typing import Any

import gym
from tf_agents.environments import py_environment, wrappers

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.processes import Process, descendants
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.settings.hooks import call_hook, call_method
from tfagents_system.core.settings.params import Params
from tfagents_system.environments import base_env_adapter, pettingzoo_adapter
from tfagents_system.environments.action_masks import ActionMasks, with_action_masks
from tfagents_system.environments.closing import end_started, started_since
from tfagents_system.environments.declared_kinds import DeclaredKinds
from tfagents_system.environments.exact_casts import refuse_lossy_casts
from tfagents_system.environments.frame_stack import FrameStack
from tfagents_system.environments.guest_environment import GuestEnvironment, OwnActions, as_made
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.environments.leaf_names import check_leaf_names
from tfagents_system.environments.time_left import TimeLeft
from tfagents_system.environments.time_limits import keep_discount_at_time_limits
from tfagents_system.environments.vector_adapter import GymnasiumVectorEnvironment


@FIRST_EPISODE.judges()
def make_collect_environment(
    params: Params, seed: int, worker_id: int = 0
) -> py_environment.PyEnvironment:
    """Returns `params.env_ctor` called with the arguments of `collect_env_args_kwargs`.

    The hook gets the worker's `id`. Environments of TF-Agents' suites are changed to tell time
    limits from terminations; see `time_limits`.

    Args:
      params: The user's TrainParams.
      seed: Passed to the constructor, unless the hook returns another.
      worker_id: From 0.

    Raises:
      ConfigError: If a hook or the constructor returns a wrong type; after the first complete
        episode of a run's start, a UserCodeError.
    """
    hook = params.collect_env_args_kwargs
    return _make(params, hook, call_hook(hook, id=worker_id), seed)


@FIRST_EPISODE.judges()
def make_eval_environment(
    params: Params,
    seed: int,
    worker_id: int | None = None,
    collect_env: py_environment.PyEnvironment | None = None,
) -> py_environment.PyEnvironment:
    """Returns `params.env_ctor` called with the arguments of `eval_env_args_kwargs`.

    In a worker the hook gets `id` and `collect_env`. Outside a worker it gets neither, but
    parameters without a default get id=0 and collect_env=None.

    Args:
      params: As in `make_collect_environment`.
      seed: As there.
      worker_id: None outside a worker.
      collect_env: The worker's collect environment.

    Raises:
      ConfigError: As in `make_collect_environment`.
    """
    hook = params.eval_env_args_kwargs
    known = {} if worker_id is None else {"id": worker_id, "collect_env": as_made(collect_env)}
    return _make(params, hook, call_hook(hook, **known), seed)


def _make(
    params: Params, hook: Callable[..., Any], result: Any, seed: int
) -> py_environment.PyEnvironment:
    if not _is_args_kwargs(result):
        raise ConfigError(f"TrainParams.{hook.__name__} returned {result!r}; "
                          "expected a pair (args, kwargs).")  # fmt: skip
    args, kwargs = result
    before = descendants()
    try:
        kwargs = {"seed": seed, **kwargs}
        made = call_method(params.env_ctor, *args, **kwargs)
        return _as_ours(_adapted(made, kwargs["seed"]), params, before)
    except BaseException:
        end_started(started_since(before))
        raise


def _adapted(environment: Any, seed: int) -> Any:
    """Returns an environment of another library in its adapter; others unchanged."""
    if base_env_adapter.is_base_env(environment):
        return base_env_adapter.BaseEnvEnvironment(environment)
    if pettingzoo_adapter.is_parallel(environment):
        return pettingzoo_adapter.ParallelEnvironment(environment, seed)
    if pettingzoo_adapter.is_sequential(environment):
        raise ConfigError(
            f"TrainParams.env_ctor returned a {type(environment).__name__}, an environment of "
            "PettingZoo whose agents act in turn; expected a parallel one, such as that of "
            "parallel_env() or pettingzoo.utils.aec_to_parallel."
        )
    gymnasium = sys.modules.get("gymnasium")  # a user who has made one has imported it
    if gymnasium is not None and isinstance(environment, gymnasium.vector.VectorEnv):
        return GymnasiumVectorEnvironment(environment, seed)
    if gymnasium is not None and isinstance(environment, gymnasium.Env):
        return GymnasiumEnvironment(environment, seed)
    return GymEnvironment(environment, seed) if isinstance(environment, gym.Env) else environment


def _as_ours(
    environment: Any, params: Params, before: set[Process]
) -> py_environment.PyEnvironment:
    """Checks and wraps the result of `env_ctor`; `before` are the processes before its call."""
    if not isinstance(environment, py_environment.PyEnvironment):
        raise ConfigError(
            f"TrainParams.env_ctor returned a {type(environment).__name__}; expected a TF-Agents "
            "PyEnvironment, or an environment of gym, gymnasium, PettingZoo or ML-Agents. Adapters "
            "for PyBullet and dm_control are in tfagents_system/environments."
        )
    if environment.batched:
        raise ConfigError("TrainParams.env_ctor returned a batched environment; expected one "
                          "whose observations have no batch axis.")  # fmt: skip
    keep_discount_at_time_limits(environment)
    refuse_lossy_casts(environment)
    environment = GuestEnvironment(environment, started_since(before))
    if params.action_repeat > 1:
        environment = wrappers.ActionRepeat(OwnActions(environment), params.action_repeat)
    if params.time_aware:
        environment = TimeLeft(environment, params.env_config["horizon"])
    environment = with_action_masks(environment)
    if isinstance(environment, ActionMasks) and params.action_repeat > 1:
        raise ConfigError(
            f"TrainParams.action_repeat is {params.action_repeat}, but the environment has masks "
            "of actions; expected 1: an action may be forbidden before it is repeated."
        )
    check_leaf_names(environment.observation_spec())
    layouts, has_goals = params.image_layouts or {}, params.goal_conditioning_type != "none"
    entities, goals = params.entity_observations, params.goal_observations
    if layouts or entities or goals or not has_goals:
        environment = DeclaredKinds(environment, layouts, entities, goals, has_goals)
    stack = params.frame_stack
    return FrameStack(environment, stack) if stack > 1 else environment


def _is_args_kwargs(result: Any) -> bool:
    if not (isinstance(result, tuple) and len(result) == 2):
        return False
    args, kwargs = result
    return isinstance(args, (tuple, list)) and isinstance(kwargs, dict)
