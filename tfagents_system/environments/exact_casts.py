"""Casts to integers without loss, or fails: NumPy's own cast stores 300 in 8 bits as 44."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import gym_wrapper, py_environment
from tf_agents.specs import array_spec

from tfagents_system.environments.layers import py_layers


def exact(values: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Returns a copy of `values` with an integer dtype.

    Raises:
      ValueError: If the dtype cannot hold a value exactly.
    """
    given = np.asarray(values)
    if given.dtype == dtype:
        return given.copy()
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {given.dtype}, its spec {dtype}")
    with np.errstate(invalid="ignore"):  # NaN cast to an integer is undefined
        result = given.astype(dtype)
    is_lost = np.asarray(result != given)
    if is_lost.any():
        limits = np.iinfo(dtype)
        raise ValueError(
            f"{name} has the value {given[is_lost].flat[0]}, which its dtype {dtype} cannot hold: "
            f"allowed are integers from {limits.min} to {limits.max}"
        )
    return result


def leaf_cast(spec: array_spec.ArraySpec) -> Callable[[Any], NDArray[Any]]:
    """Returns the function that copies a leaf into an array of the spec's dtype.

    It raises ValueError for a number that an integer dtype cannot hold.
    """
    dtype, name = np.dtype(spec.dtype), spec.name or "observation"
    if dtype.kind not in "iu":
        return lambda leaf: np.array(leaf, dtype)

    def cast(leaf: Any) -> NDArray[Any]:
        if type(leaf) is np.ndarray and leaf.dtype == dtype:
            return leaf.copy()
        return exact(leaf, dtype, name)

    return cast


def refuse_lossy_casts(environment: py_environment.PyEnvironment) -> None:
    """Makes an environment of a TF-Agents suite raise for integers that its spec cannot hold.

    Otherwise its GymWrapper silently wraps them around. Changes the GymWrapper in place, as in
    `time_limits`.
    """
    for layer in py_layers(environment):
        if isinstance(layer, gym_wrapper.GymWrapper):
            _cast_exactly(layer)


def _cast_exactly(wrapper: gym_wrapper.GymWrapper) -> None:
    spec = wrapper.observation_spec()
    casts = [leaf_cast(leaf) for leaf in tree.flatten(spec)]

    def to_spec(observation: Any) -> Any:
        leaves = tree.flatten_up_to(spec, observation, check_types=False)
        return tree.unflatten_as(
            spec, [cast(leaf) for cast, leaf in zip(casts, leaves, strict=True)]
        )

    wrapper._to_obs_space_dtype = to_spec
