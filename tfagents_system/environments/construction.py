"""Builds the environments that a TrainParams describes."""

import inspect
from typing import Any

from tf_agents.environments import py_environment

from tfagents_system.core.errors import ConfigError


def make_environment(
    params: Any, worker_id: int, is_collect: bool, seed: int
) -> py_environment.PyEnvironment:
    """Returns `params.env_ctor` called with the arguments of its collect or eval hook.

    Raises:
      ConfigError: If a hook or the constructor returns something of another type.
    """
    hook = params.collect_env_args_kwargs if is_collect else params.eval_env_args_kwargs
    result = hook(**_accepted(hook, {"id": worker_id, "collect_env": is_collect}))
    if not _is_args_kwargs(result):
        raise ConfigError(f"TrainParams.{hook.__name__} returned {result!r}; "
                          "allowed is a pair (args, kwargs).")  # fmt: skip
    args, kwargs = result
    environment = params.env_ctor(*args, **{"seed": seed, **kwargs})
    if not isinstance(environment, py_environment.PyEnvironment):
        raise ConfigError(
            f"TrainParams.env_ctor returned a {type(environment).__name__}; allowed is a TF-Agents "
            "PyEnvironment. Adapters for gym, gymnasium and PyBullet are in "
            "tfagents_system/environments."
        )
    if environment.batched:
        raise ConfigError("TrainParams.env_ctor returned a batched environment; allowed is one "
                          "whose observations have no batch axis.")  # fmt: skip
    return environment


def _is_args_kwargs(result: Any) -> bool:
    if not (isinstance(result, tuple) and len(result) == 2):
        return False
    args, kwargs = result
    return isinstance(args, (tuple, list)) and isinstance(kwargs, dict)


def _accepted(hook: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of `arguments` that `hook` names, or all if it takes any keyword."""
    parameters = inspect.signature(hook).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}
