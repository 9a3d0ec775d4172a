"""Names the leaves of an observation or action, and selects those that a network sees.

A leaf's name is the path of its keys, such as "arm/torque" of {"arm": {"torque": ...}}.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError


def leaf_name(*keys: Any) -> str:
    """Returns the name of the leaf or dict at the path `keys`; "" of no keys."""
    return "/".join(map(str, keys))


def without(nest: Any, names: Collection[str]) -> Any:
    """Returns `nest`, an observation or its spec, without the leaves of these names.

    The name of a dict stands for all leaves in it. Names that `nest` lacks are ignored; if it lacks
    all of them, `nest` itself is returned. A dict that loses its last leaf is left out.
    """
    return _without(nest, frozenset(names), "")


def _without(nest: Any, names: Collection[str], prefix: str) -> Any:
    if not isinstance(nest, Mapping):
        return nest
    parts = {
        key: _without(part, names, f"{prefix}{key}/")
        for key, part in nest.items()
        if f"{prefix}{key}" not in names
    }
    kept = {
        key: part for key, part in parts.items() if part is nest[key] or not _is_empty_dict(part)
    }
    return kept if _differ(kept, nest) else nest


def only(observation: Any, spec: Any) -> Any:
    """Returns the leaves of `observation` that `spec` has; none of them may be missing.

    Additional leaves of dicts are left out; without any, `observation` itself is returned.
    """
    if not isinstance(spec, Mapping):
        return observation
    kept = {key: only(observation[key], part) for key, part in spec.items()}
    return kept if _differ(kept, observation) else observation


def names_of(nest: Any, prefix: str = "") -> Iterator[str]:
    """Yields the names of dicts and leaves in `nest`, each dict before its content."""
    if isinstance(nest, Mapping):
        for key, part in nest.items():
            yield f"{prefix}{key}"
            yield from names_of(part, f"{prefix}{key}/")


def leaves_by_name(
    leaves_with_paths: Iterable[tuple[tuple[Any, ...], Any]],
    name_of: Callable[[tuple[Any, ...]], str],
    whose: str,
) -> dict[str, Any]:
    """Returns the leaves by the names that `name_of` gives their paths.

    `whose` is what has them, for messages.

    Raises:
      ConfigError: If two leaves have the same name.
    """
    leaves: dict[str, Any] = {}
    paths: dict[str, tuple[Any, ...]] = {}
    for path, leaf in leaves_with_paths:
        name = name_of(path)
        if name in leaves:
            raise ConfigError(
                f"The {whose} has the leaves {list(paths[name])} and {list(path)}, which are both "
                f"{name!r} once their keys are joined. Rename one in the environment, or in a "
                "wrapper."
            )
        leaves[name], paths[name] = leaf, path
    return leaves


def _is_empty_dict(part: Any) -> bool:
    return isinstance(part, Mapping) and not part


def _differ(kept: Mapping[str, Any], nest: Mapping[str, Any]) -> bool:
    return len(kept) != len(nest) or any(part is not nest[key] for key, part in kept.items())
