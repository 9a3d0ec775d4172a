"""Reads YAML and JSON files of ML-Agents into plain values."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError

Mappings = Mapping[str, Any]


def read_mapping(path: pathlib.Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file, or in a file *.json.

    Raises:
      ConfigError: If the file cannot be read, is neither, repeats a key, or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read the file of ML-Agents ({error}).") from error
    try:
        value = json.loads(text) if path.suffix == ".json" else _from_yaml(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise ConfigError(f"{path}: not valid {kind}: {' '.join(str(error).split())}") from error
    return mapping(value, str(path))


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Returns `value` if it is a mapping with strings as keys; None is an empty one.

    Raises:
      ConfigError: If it is not.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{where} is {value!r}; expected keys with values.")
    return dict(value)


def number(value: Any, where: str) -> float:
    """Returns a number, also one that YAML takes for a string, such as 5.0e4.

    Raises:
      ConfigError: If it is not a number.
    """
    try:
        if isinstance(value, bool):
            raise ValueError
        result = float(value)
        if not abs(result) < float("inf"):
            raise ValueError
        return result
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{where} is {value!r}; expected a number.") from None


def at_least(least: float, value: Any, where: str) -> float:
    """Returns a number >= `least`; raises ConfigError for anything else."""
    result = number(value, where)
    if result < least:
        raise ConfigError(f"{where} is {value}; expected a number >= {least:g}.")
    return result


def integer(least: int, most: int, value: Any, where: str) -> int:
    """Returns an integer from `least` to `most`; raises ConfigError for anything else."""
    result = number(value, where)
    if result != int(result) or not least <= result <= most:
        raise ConfigError(f"{where} is {value}; expected an integer from {least} to {most}.")
    return int(result)


def flag(value: Any, where: str) -> bool:
    """Returns True or False, also for a string; raises ConfigError for anything else."""
    known = {"true": True, "false": False}
    if str(value).lower() not in known:
        raise ConfigError(f"{where} is {value!r}; expected true or false.")
    return known[str(value).lower()]


def _from_yaml(text: str) -> Any:
    import yaml  # here, because most programs start faster without it

    class Loader(yaml.SafeLoader):
        """Rejects duplicate keys, of which YAML would take the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if twice := [name for name in names if names.count(name) > 1 and name != "<<"]:
                raise ValueError(f"the key {twice[0]!r} appears twice{node.start_mark}")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
