"""Calls the methods of a TrainParams that may name what they want to know."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError

# Keyword arguments that a hook may name, and what it gets where there is nothing to give.
FALLBACKS: Mapping[str, Any] = {"id": 0, "collect_env": None}


def call_hook(hook: Callable[..., Any], **known: Any) -> Any:
    """Returns what `hook` returns; it gets those of `known` that it names, or all if it takes any.

    A parameter that `hook` requires and that is not `known` gets its value in FALLBACKS.

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
    return hook(**{name: values[name] for name in given})
