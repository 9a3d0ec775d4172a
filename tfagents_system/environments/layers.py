"""What an environment is made of: its wrappers, and what they wrap."""

from collections.abc import Iterator
from typing import Any

from tf_agents.environments import wrappers


def py_layers(environment: Any) -> Iterator[Any]:
    """Yields the environment from its outermost TF-Agents wrapper to the innermost environment."""
    yield environment
    while isinstance(environment, wrappers.PyEnvironmentBaseWrapper):
        environment = environment.wrapped_env()
        yield environment
