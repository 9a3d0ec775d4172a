"""Selects the leaves of an observation that a network sees: those in the spec of its input.

A leaf's name is the path of its keys, such as "arm/torque" of {"arm": {"torque": ...}}.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any


def without(nest: Any, names: Collection[str]) -> Any:
    """Returns `nest`, an observation or its spec, without the leaves of these names.

    A name of a dict stands for all leaves in it. Names that `nest` has not are ignored; if it has
    none, it is returned itself. Dicts are left out with their last leaf.
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
    """Returns the leaves of `observation` that `spec` has; it has all of those.

    Dicts may have more leaves, which are left out; if there are none, `observation` is returned
    itself.
    """
    if not isinstance(spec, Mapping):
        return observation
    kept = {key: only(observation[key], part) for key, part in spec.items()}
    return kept if _differ(kept, observation) else observation


def names_of(nest: Any, prefix: str = "") -> Iterator[str]:
    """Yields the names of the leaves in dicts, each after those of the dicts that it is in."""
    if isinstance(nest, Mapping):
        for key, part in nest.items():
            yield f"{prefix}{key}"
            yield from names_of(part, f"{prefix}{key}/")


def _is_empty_dict(part: Any) -> bool:
    return isinstance(part, Mapping) and not part


def _differ(kept: Mapping[str, Any], nest: Mapping[str, Any]) -> bool:
    return len(kept) != len(nest) or any(part is not nest[key] for key, part in kept.items())
