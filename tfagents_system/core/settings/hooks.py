"""Checks and calls the methods of a user's TrainParams."""

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.settings.attribute_names import HOOKS

# Keyword arguments that a hook may have, and their values if the caller has none.
FALLBACKS: Mapping[str, Any] = {"id": 0, "collect_env": None}
_FREE: Mapping[str, tuple[str, ...]] = {
    "collect_env_args_kwargs": (),
    "eval_env_args_kwargs": (),
    "train_observers_ctor": (),
    "eval_observers_ctor": (),
    "callbacks": ("program",),
}  # hooks that may leave out any of these, and of FALLBACKS
_POSITIONAL = {
    "actor_ctor": ("obs_spec", "action_spec"),
    "critic_ctor": ("obs_spec", "action_spec"),
    "state_value_ctor": ("obs_spec",),
    "summarizer_ctor": ("obs_spec",),
    "agent_ctor": ("train_step", "obs_spec", "action_spec", "time_step_spec"),
    "reward_signals_ctor": ("obs_spec", "action_spec"),
    "sample_parameter": ("name", "settings", "generator"),
}  # hooks that get all of these, in this order
_NETWORKS = ("actor_ctor", "critic_ctor", "state_value_ctor", "summarizer_ctor")


def check_hooks(params: Any, has_own_agent: bool, where: str) -> None:
    """Raises ConfigError if a hook of a TrainParams cannot be called as programs call it.

    Args:
      params: The TrainParams.
      has_own_agent: Whether it overrides `agent_ctor`, which alone calls the hooks of networks.
      where: The params file, for messages.
    """
    for name in HOOKS:
        if has_own_agent and name in _NETWORKS:
            continue
        hook = getattr(params, name)
        if not callable(hook):
            raise ConfigError(
                f"{where}: TrainParams.{name} is {hook!r}; expected a method, def {name}(self, "
                "...)."
            )
        try:
            signature = inspect.signature(hook)
        except ValueError:  # of a function not written in Python
            continue
        try:
            _check_signature(name, signature)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error


def _check_signature(name: str, signature: inspect.Signature) -> None:
    if name in _FREE:
        _required(name, signature, {*FALLBACKS, *_FREE[name]})
    elif name == "env_ctor":
        parameters = signature.parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        if not takes_any and "seed" not in signature.parameters:
            raise ConfigError(
                f"TrainParams.env_ctor is env_ctor{signature} and gets the argument seed; write "
                "def env_ctor(self, *args, seed=None, **kwargs)."
            )
    else:
        try:
            signature.bind(*_POSITIONAL[name])
        except TypeError as error:
            expected = ", ".join(("self", *_POSITIONAL[name]))
            raise ConfigError(
                f"TrainParams.{name} is {name}{signature}: {error}; write def {name}({expected})."
            ) from error


def call_hook(hook: Callable[..., Any], **known: Any) -> Any:
    """Calls `hook` with the arguments in `known` that it has as parameters, or all if it takes any.

    A required parameter that is not `known` gets its value from FALLBACKS.

    Raises:
      ConfigError: If `hook` requires something else.
    """
    signature = inspect.signature(hook)
    parameters = signature.parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    values = {**FALLBACKS, **known}
    required = _required(hook.__name__, signature, values)
    given = {*required, *(known if takes_any else known.keys() & signature.parameters.keys())}
    return call_method(hook, **{name: values[name] for name in given})


def _required(name: str, signature: inspect.Signature, values: Collection[str]) -> list[str]:
    """Returns the parameters without a default; raises ConfigError if there are others."""
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in variable
    ]
    for parameter in required:
        if parameter not in values:
            raise ConfigError(
                f"TrainParams.{name} requires the argument {parameter!r}; it can have "
                f"{' and '.join(values)}, and others only with a default."
            )
    return required


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
