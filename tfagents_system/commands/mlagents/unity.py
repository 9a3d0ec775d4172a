"""Reads areas, arguments and engine settings of a Unity build from ML-Agents' configuration."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tfagents_system.commands.mlagents.document import Document, read_document
from tfagents_system.commands.mlagents.parameters import constants_of, parameters_of
from tfagents_system.commands.mlagents.reading import mapping, number
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.core.errors import ConfigError

NO_GRAPHICS = ("-nographics", "-batchmode")  # as ML-Agents starts a build then


def with_build_settings(options: EnvironmentOptions) -> EnvironmentOptions:
    """Returns the options with the configuration's arguments of `unity_adapter.load`.

    Arguments that the options already have take precedence; in a dict, key by key.

    Raises:
      ConfigError: If the configuration cannot be read, or a value is not allowed.
    """
    if options.mlagents is None:
        return options
    document = read_document(options.mlagents.trainer)
    constants = constants_of(parameters_of(document, "", []))  # the same for any behavior
    return with_arguments(options, build_settings(document, constants))


def with_arguments(options: EnvironmentOptions, kwargs: Mapping[str, Any]) -> EnvironmentOptions:
    """Returns the options with more arguments; see `with_build_settings`."""
    joined = dict(kwargs)
    for name, value in options.kwargs.items():
        both = isinstance(value, dict) and isinstance(joined.get(name), dict)
        joined[name] = joined[name] | value if both else value
    return dataclasses.replace(options, kwargs=joined)


def build_settings(document: Document, constants: Mapping[str, float]) -> dict[str, Any]:
    """Returns a configuration's settings of the build, as arguments of `unity_adapter.load`.

    Constant parameters of the environment are among them: ML-Agents sends them to evaluations, too.
    """
    found: dict[str, Any] = {"parameters": dict(constants)} if constants else {}
    for part, keys in BUILD_KEYS.items():
        given = mapping(document.beside.get(part), f"{document.path}: {part}")
        for key, value in given.items():
            if key not in keys:
                continue
            for name, own in keys[key](value, f"{document.path}: {part}.{key}").items():
                both = isinstance(own, (dict, tuple)) and name in found
                found[name] = _joined(found[name], own) if both else own
    return found


def _joined(one: Any, other: Any) -> Any:
    return one | other if isinstance(one, dict) else one + other


def _areas(value: Any, where: str) -> dict[str, Any]:
    count = number(value, where)
    if count < 1 or count != int(count):
        raise ConfigError(f"{where} is {value!r}; expected integers >= 1.")
    return {"num_areas": int(count)}


def _timeout(value: Any, where: str) -> dict[str, Any]:
    return {"timeout_secs": number(value, where)}


def _arguments(value: Any, where: str) -> dict[str, Any]:
    words = [] if value is None else value
    if not isinstance(words, list):
        raise ConfigError(f"{where} is {value!r}; expected a list of arguments.")
    return {"arguments": tuple(map(str, words))} if words else {}


def _no_graphics(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} is {value!r}; expected true or false.")
    return {"arguments": NO_GRAPHICS} if value else {}


def _engine(name: str) -> Callable[[Any, str], dict[str, Any]]:
    return lambda value, where: {"engine": {name: number(value, where)}}


_Take = Callable[[Any, str], dict[str, Any]]
BUILD_KEYS: dict[str, dict[str, _Take]] = {
    "env_settings": {
        "num_areas": _areas, "timeout_wait": _timeout, "env_args": _arguments,
    },
    "engine_settings": {
        "no_graphics": _no_graphics,
        "width": _engine("width"), "height": _engine("height"),
        "quality_level": _engine("quality_level"), "time_scale": _engine("time_scale"),
        "target_frame_rate": _engine("target_frame_rate"),
        "capture_frame_rate": _engine("capture_frame_rate"),
    },
}  # fmt: skip
