"""Converts an observation from elsewhere, such as a robot's program, for a policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.exact_casts import leaf_cast


def conforming(observation: Any, spec: Any, name: str = "observation") -> Any:
    """Returns `observation` with the leaves, shapes and dtypes of `spec`, in arrays of its own.

    Dicts may have more leaves, which are left out. Numbers are cast, integers without loss.

    Raises:
      ConfigError: If a leaf is missing, has another shape, is not finite, is not of numbers or
        cannot be cast; the message names it.
    """
    if isinstance(spec, array_spec.ArraySpec):
        return _leaf(observation, spec, name)
    if isinstance(spec, Mapping):
        given = observation if isinstance(observation, Mapping) else {}
        if missing := [key for key in spec if key not in given]:
            raise ConfigError(
                f"{name} is a {type(observation).__name__} without {', '.join(missing)}; expected "
                f"a dict with {', '.join(spec)}."
            )
        return {key: conforming(given[key], part, f"{name}/{key}") for key, part in spec.items()}
    if not isinstance(observation, (list, tuple)) or len(observation) != len(spec):
        raise ConfigError(
            f"{name} is a {type(observation).__name__}; expected a tuple of {len(spec)} parts."
        )
    parts = zip(observation, spec, strict=True)
    return type(spec)(conforming(*pair, f"{name}/{i}") for i, pair in enumerate(parts))


def _leaf(given: Any, spec: array_spec.ArraySpec, name: str) -> np.ndarray[Any, Any]:
    expected = f"numbers of shape {list(spec.shape)}, as in training"
    try:
        array = np.asarray(given)
    except ValueError:  # rows of several lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise ConfigError(
            f"{name} is a {type(given).__name__}, not an array of numbers; expected {expected}."
        )
    if array.shape != tuple(spec.shape):
        raise ConfigError(f"{name} has shape {list(array.shape)}; expected {expected}.")
    try:
        with np.errstate(over="ignore"):  # to infinity
            cast = leaf_cast(spec)(array)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from None
    if not np.isfinite(cast).all():
        raise ConfigError(
            f"{name} is not finite as {cast.dtype}; expected neither NaN nor infinity."
        )
    return cast
