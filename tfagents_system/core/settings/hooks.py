"""Calls the methods of a user's TrainParams."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST

# Keyword arguments that a hook may have, and their values if the caller has none.
FALLBACKS: Mapping[str, Any] = {"id": 0, "collect_env": None}


def call_hook(hook: Callable[..., Any], **known: Any) -> Any:
    """Calls `hook` with those of `known` that it has as parameters, or all if it takes any.

    A required parameter that is not `known` gets its value from FALLBACKS.

    Raises:
      ConfigError: If `hook` requires something else.
    """
    parameters = inspect.signature(hook).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    values = {**FALLBACKS, **known}
    required = [parameter.name for parameter in named if parameter.default is parameter.empty]
    for name in required:
        if name not in values:
            raise ConfigError(
                f"TrainParams.{hook.__name__} requires the argument {name!r}; it can have "
                f"{' and '.join(values)}, and others only with a default."
            )
    given = {*required, *(known if takes_any else (p.name for p in named if p.name in known))}
    return call_method(hook, **{name: values[name] for name in given})


def call_method(
    method: Callable[..., Any], *args: Any, is_patient: bool = False, **kwargs: Any
) -> Any:
    """Calls `method` of a TrainParams as a visit of user code (core/process/guest.py).

    Containers among its arguments, and `env_config`, are copies, so that it may modify them.

    Args:
      method: Bound to the TrainParams.
      args: The method's positional arguments.
      is_patient: Whether it may take longer than an env step.
      kwargs: The method's keyword arguments.
    """
    name = getattr(method, "__name__", type(method).__name__)
    with GUEST.visit(f"TrainParams.{name}", is_patient), _own_config(method):
        return method(*copied(args), **copied(kwargs))


def copied(nest: Any) -> Any:
    """Returns a copy of nested dicts, lists, tuples, sets and arrays; other leaves are shared."""
    if type(nest) is dict:
        return {key: copied(value) for key, value in nest.items()}
    if type(nest) in (list, tuple):
        return type(nest)(map(copied, nest))
    return nest.copy() if isinstance(nest, (np.ndarray, set)) else nest


@contextlib.contextmanager
def _own_config(method: Callable[..., Any]) -> Iterator[None]:
    """Gives the TrainParams of `method` a copy of its `env_config` within the block."""
    attributes = getattr(getattr(method, "__self__", None), "__dict__", {})
    if "env_config" not in attributes:
        yield
        return
    ours = attributes["env_config"]
    attributes["env_config"] = copied(ours)
    try:
        yield
    finally:
        attributes["env_config"] = ours
