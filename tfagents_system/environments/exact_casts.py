"""Casts to integers without loss, or fails: NumPy's own cast turns 300 into 44 in 8 bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import gym_wrapper, py_environment
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.process.guest import GUEST
from tfagents_system.environments.layers import py_layers

# TensorFlow cannot draw numbers of these dtypes, as TF-Agents does to make networks.
_WIDER = {"int8": "int32", "int16": "int32", "uint16": "int32",
          "uint32": "int64", "uint64": "int64"}  # fmt: skip


class IntegerSpec(array_spec.BoundedArraySpec):
    """Integers as agents have them: in a wider dtype than `own_dtype`, if they need one."""

    def __init__(
        self, shape: tuple[int, ...], own_dtype: Any, minimum: Any, maximum: Any, name: str
    ):
        """Takes the dtype and bounds that the environment has."""
        self.own_dtype = np.dtype(own_dtype)
        dtype = np.dtype(_WIDER.get(self.own_dtype.name, self.own_dtype))
        if self.own_dtype == np.uint64:  # int64 lacks the upper half of it
            held = np.uint64(np.iinfo(np.int64).max)
            minimum, maximum = (np.minimum(np.uint64(x), held) for x in (minimum, maximum))
        super().__init__(shape, dtype, minimum, maximum, name)


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
            f"expected integers from {limits.min} to {limits.max}"
        )
    return result


def leaf_cast(spec: array_spec.ArraySpec) -> Callable[[Any], NDArray[Any]]:
    """Returns the function that copies a leaf into an array of the spec's dtype.

    It raises ValueError for a number that an integer dtype cannot hold, and for anything but an
    array of numbers.
    """
    dtype, name = np.dtype(spec.dtype), spec.name or "observation"

    def cast_floats(leaf: Any) -> NDArray[Any]:
        try:
            return np.array(leaf, dtype)
        except (TypeError, ValueError):  # a text, or rows of several lengths
            raise ValueError(f"{name} is a {type(leaf).__name__} that is not an array of numbers, "
                             f"its spec has shape {list(spec.shape)}") from None  # fmt: skip

    if dtype.kind not in "iu":
        return cast_floats

    def cast(leaf: Any) -> NDArray[Any]:
        if type(leaf) is np.ndarray and leaf.dtype == dtype:
            return leaf.copy()
        return exact(leaf, dtype, name)

    return cast


def refuse_lossy_casts(environment: py_environment.PyEnvironment) -> None:
    """Makes an environment of a TF-Agents suite raise for integers that its spec cannot hold.

    Otherwise its GymWrapper silently wraps them around. Changes the GymWrapper in place, as in
    `time_limits`.

    Raises:
      ConfigError: If the specs of `environment` have a dtype that agents cannot have.
    """
    _check_dtypes(environment)
    for layer in py_layers(environment):
        if isinstance(layer, gym_wrapper.GymWrapper):
            _cast_exactly(layer)


def _check_dtypes(environment: py_environment.PyEnvironment) -> None:
    for kind in ("observation", "action"):
        method = f"{type(environment).__name__}.{kind}_spec"
        with GUEST.visit(method):
            leaves = tree.flatten_with_path(getattr(environment, f"{kind}_spec")())
            dtypes = {leaf_name(kind, *path): str(leaf.dtype) for path, leaf in leaves}
        for name, dtype in dtypes.items():
            if wider := _WIDER.get(dtype):
                raise ConfigError(
                    f"{method} declares {name} with dtype {dtype}; expected float32, uint8, "
                    f"int32 and int64. Declare {wider} and cast in the environment, or return an "
                    "environment of gym or gymnasium as it is, which is cast here."
                )


def _cast_exactly(wrapper: gym_wrapper.GymWrapper) -> None:
    spec = wrapper.observation_spec()
    casts = [leaf_cast(leaf) for leaf in tree.flatten(spec)]

    def to_spec(observation: Any) -> Any:
        leaves = tree.flatten_up_to(spec, observation, check_types=False)
        return tree.unflatten_as(
            spec, [cast(leaf) for cast, leaf in zip(casts, leaves, strict=True)]
        )

    wrapper._to_obs_space_dtype = to_spec
