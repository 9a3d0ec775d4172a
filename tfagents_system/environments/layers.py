"""Walks through an environment's wrappers to the environments inside."""

from collections.abc import Iterator
from typing import Any

from tf_agents.environments import wrappers


def py_layers(environment: Any) -> Iterator[Any]:
    """Yields the environment from its outermost TF-Agents wrapper to the innermost environment."""
    yield environment
    while isinstance(environment, wrappers.PyEnvironmentBaseWrapper):
        environment = environment.wrapped_env()
        yield environment


def every_layer(environment: Any) -> list[Any]:
    """Returns the environment and everything that it wraps, of any library, in any attribute.

    Any object with `reset` and `step` counts as an environment.
    """
    found = [environment]
    for layer in found:  # the list grows meanwhile
        for value in list(getattr(layer, "__dict__", {}).values()):
            parts = value if isinstance(value, (list, tuple)) and len(value) < 100 else [value]
            for part in parts:
                is_environment = all(hasattr(type(part), name) for name in ("reset", "step"))
                if is_environment and not any(part is known for known in found):
                    found.append(part)
    return found


def have_common(one: Any, other: Any) -> bool:
    """Returns whether both are one environment, or have a common one inside."""
    parts = {id(layer) for layer in every_layer(one)}
    return any(id(layer) in parts for layer in every_layer(other))
