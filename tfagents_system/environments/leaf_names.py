"""Rejects observations whose parts have names that a SavedModel cannot have."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError

_ALLOWED = re.compile(r"[A-Za-z0-9_.\\/>-]+")  # in the name of a tensor of TensorFlow
_LIKE_UNDERSCORE = re.compile("[^a-z0-9]")  # in the name of an argument of a SavedModel


def check_leaf_names(observation_spec: Any) -> None:
    """Looks at the keys of an observation of dicts, at any depth.

    Raises:
      ConfigError: If one is no string, has other characters than a SavedModel can name its inputs
        by, or differs from another one in those alone that it does not tell apart.
    """
    seen: dict[str, str] = {}
    for path in _paths(observation_spec, ("observation",)):
        for key in path:
            if not isinstance(key, str) or not _ALLOWED.fullmatch(key):
                raise ConfigError(
                    f"The observation of the environment has the key {key!r}; allowed are strings "
                    "of letters, digits, '_', '-', '.' and '/', by which TensorFlow saves policies."
                    " Rename it in the environment, or in a wrapper."
                )
        name = "/".join(path)
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
