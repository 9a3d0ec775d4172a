"""Rejects observations whose parts have names that a SavedModel cannot have."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name

_ALLOWED = re.compile(r"[A-Za-z0-9_.\\/>-]+")  # in a tensor's name in TensorFlow
_LIKE_UNDERSCORE = re.compile("[^a-z0-9]")  # in an argument's name in a SavedModel


def check_leaf_names(observation_spec: Any) -> None:
    """Checks the keys of nested dicts in an observation.

    Raises:
      ConfigError: If a key is not a string, has characters that a SavedModel's inputs cannot have,
        or differs from another key only in characters that a SavedModel does not distinguish.
    """
    seen: dict[str, str] = {}
    for path in _paths(observation_spec, ("observation",)):
        for key in path:
            if not isinstance(key, str) or not _ALLOWED.fullmatch(key):
                raise ConfigError(
                    f"The observation of the environment has the key {key!r}; expected strings "
                    "of letters, digits, '_', '-', '.' and '/', by which TensorFlow saves policies."
                    " Rename it in the environment, or in a wrapper."
                )
        name = leaf_name(*path)
        other = seen.setdefault(_LIKE_UNDERSCORE.sub("_", name.lower()), name)
        if other != name:
            raise ConfigError(
                f"{other} and {name}, of the environment, are one name to TensorFlow, which saves "
                "policies by them: case and punctuation do not count. Rename one."
            )


def _paths(nest: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(nest, Mapping):
        for key, part in nest.items():
            yield from _paths(part, (*path, key))
    elif isinstance(nest, (list, tuple)):
        for index, part in enumerate(nest):
            yield from _paths(part, (*path, str(index)))
    else:
        yield path
