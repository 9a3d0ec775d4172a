"""Converts gym and gymnasium spaces to TF-Agents specs, and casts values to them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.specs import array_spec
from tf_agents.typing import types

from tfagents_system.core.categories import category_name
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.exact_casts import IntegerSpec, exact, leaf_cast

_SUPPORTED = ("Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple")
_ROUNDING = 1e-5  # share of the action range by which float32 arithmetic may exceed a bound


def observation_spec(space: Any, owner: str) -> types.NestedArraySpec:
    """Returns the spec of a space's observations after `observation_cast`.

    Args:
      space: A space of gym or gymnasium. Float boxes become float32 (bounds rounded outwards, so
        that an observation on its bound stays inside), bool boxes uint8; see `IntegerSpec`.
      owner: Class name of the environment, for error messages.

    Returns:
      BoundedArraySpec, or a dict (for Dict) or tuple (for Tuple) of such. Texts in a Dict are left
      out; see `texts_in`.

    Raises:
      ConfigError: If the space, or one inside it, is not supported.
    """
    return _spec(space, "observation", owner, is_action=False)


def texts_in(space: Any, name: str = "observation") -> list[str]:
    """Returns the names of the texts in the dicts of an observation space: observation/mission."""
    if _kind(space) != "Dict":
        return []
    names = []
    for key, child in space.spaces.items():
        own = f"{name}/{key}"
        names += [own] if _is_text(child) else texts_in(child, own)
    return names


def action_spec(space: Any, owner: str) -> types.NestedArraySpec:
    """Returns the spec of an agent's actions for this space.

    Float boxes become float32 with bounds rounded inwards, so that an action on the bound of the
    spec is inside a space with float64 bounds. Discrete becomes an int64 scalar.

    Args:
      space: A space of gym or gymnasium.
      owner: Class name of the environment, for error messages.

    Raises:
      ConfigError: If a float box is unbounded, or a space is not supported.
    """
    return _spec(space, "action", owner, is_action=True)


def observation_cast(spec: types.NestedArraySpec) -> Callable[[Any], types.NestedArray]:
    """Returns the function that copies an observation into arrays of the spec.

    It copies because some environments return the same buffer at each step; observation and next
    observation of a transition would then silently be equal. It raises ValueError for a number
    that an integer dtype cannot hold, and for a part that is missing.
    """
    if isinstance(spec, dict):
        casts = {key: observation_cast(child) for key, child in spec.items()}

        def cast_parts(observation: Any) -> types.NestedArray:
            try:
                return {key: cast(observation[key]) for key, cast in casts.items()}
            except (KeyError, TypeError, IndexError):
                is_dict = isinstance(observation, Mapping)
                found = sorted(observation) if is_dict else type(observation).__name__
                raise ValueError(
                    f"the observation is {found}; expected a dict with {sorted(casts)}"
                ) from None

        return cast_parts
    if isinstance(spec, tuple):
        parts = [observation_cast(child) for child in spec]
        return lambda observation: tuple(
            cast(part) for cast, part in zip(parts, observation, strict=True)
        )
    return leaf_cast(spec)


def action_cast(spec: types.NestedArraySpec, owner: str) -> Callable[[types.NestedArray], Any]:
    """Returns the function that converts an agent's action for the environment.

    Scalar integers become Python ints (some environments use them as keys), other integers new
    arrays of the environment's dtype, floats of float32. Squashing in float32 (mean + magnitude *
    tanh) may exceed the bounds by one rounding step, at which strict environments raise, so such
    actions are clipped; an action further outside (1e-5 of the range) is the caller's mistake and
    is never changed silently.

    Args:
      spec: From `action_spec`.
      owner: Class name of the environment, for error messages.

    Returns:
      A function that raises ValueError for an action of the wrong shape, out of bounds, or with a
      number that an integer dtype cannot hold.
    """
    if isinstance(spec, dict):
        casts = {key: action_cast(child, owner) for key, child in spec.items()}
        return lambda action: {key: cast(action[key]) for key, cast in casts.items()}
    if isinstance(spec, tuple):
        parts = [action_cast(child, owner) for child in spec]
        return lambda action: tuple(cast(part) for cast, part in zip(parts, action, strict=True))
    if np.issubdtype(spec.dtype, np.integer) and spec.shape == ():
        return _scalar_integer_cast(spec, owner)
    return _array_action_cast(spec, owner)


def check_observation(
    observation: Any, space: Any, spec: types.NestedArraySpec, owner: str
) -> None:
    """Checks that casting loses nothing of the observation except texts; too slow for every step.

    Args:
      observation: From the environment.
      space: Its space, which may have texts.
      spec: From `observation_spec`.
      owner: Class name of the environment, for error messages.

    Raises:
      ConfigError: If structure or shape differ from the declared space, or if an integer space
        receives floats, which the cast would truncate.
    """
    if isinstance(spec, dict):
        declared = set(space.spaces)
        if not isinstance(observation, Mapping) or set(observation) != declared:
            found = sorted(observation) if isinstance(observation, Mapping) else type(observation)
            raise ConfigError(
                f"{owner} declares a Dict observation space with keys {sorted(declared)} but "
                f"returned {found}. Make observation_space and the returned observation agree."
            )
        for key, child in spec.items():
            check_observation(observation[key], space.spaces[key], child, owner)
    elif isinstance(spec, tuple):
        if not isinstance(observation, (tuple, list)) or len(observation) != len(spec):
            raise ConfigError(
                f"{owner} declares a Tuple observation space of {len(spec)} parts but returned "
                f"{type(observation)}. Make observation_space and the returned observation agree."
            )
        for part, part_space, child in zip(observation, space.spaces, spec, strict=True):
            check_observation(part, part_space, child, owner)
    else:
        _check_observation_leaf(observation, spec, owner)


def _check_observation_leaf(observation: Any, spec: array_spec.ArraySpec, owner: str) -> None:
    try:
        array = np.asarray(observation)
        found = f"shape {array.shape} and dtype {array.dtype}"
        agrees = array.shape == spec.shape and array.dtype.kind in (
            "biuf" if spec.dtype.kind == "f" else "biu"
        )
    except ValueError:  # ragged, for example the (observation, info) of another gym API
        found, agrees = f"a {type(observation).__name__} that is not an array", False
    if not agrees:
        raise ConfigError(
            f"{owner} declares {spec.name} with shape {spec.shape} and dtype {spec.dtype} but "
            f"returned {found}. Make observation_space and the returned observation agree."
        )


def _scalar_integer_cast(spec: array_spec.BoundedArraySpec, owner: str) -> Callable[[Any], int]:
    minimum, maximum = int(spec.minimum), int(spec.maximum)

    def cast(action: Any) -> int:
        value = int(exact(action, spec.dtype, f"The {spec.name} of {owner}"))
        if not minimum <= value <= maximum:
            raise ValueError(f"Action {value} of {owner} is outside {minimum}..{maximum}.")
        return value

    return cast


def _array_action_cast(
    spec: array_spec.BoundedArraySpec, owner: str
) -> Callable[[Any], NDArray[Any]]:
    shape, dtype, name = spec.shape, np.dtype(spec.dtype), f"The {spec.name} of {owner}"
    if isinstance(spec, IntegerSpec):
        dtype = spec.own_dtype
    minimum = np.broadcast_to(spec.minimum, shape).astype(dtype)  # equal shapes broadcast fastest
    maximum = np.broadcast_to(spec.maximum, shape).astype(dtype)
    is_float = dtype.kind == "f"
    tolerance = _ROUNDING * (maximum - minimum) if is_float else np.zeros(shape)

    def cast(action: Any) -> NDArray[Any]:
        action = np.asarray(action, dtype) if is_float else exact(action, dtype, name)
        if action.shape != shape:
            raise ValueError(f"Action of {owner} has shape {action.shape}; expected {shape}.")
        clipped = np.minimum(np.maximum(action, minimum), maximum)  # a third of np.clip's time
        # Equal bytes mean that nothing was clipped; ten times as fast as (a == b).all().
        if clipped.tobytes() != action.tobytes() and np.any(np.abs(clipped - action) > tolerance):
            raise ValueError(
                f"Action {action.tolist()} of {owner} is outside its bounds "
                f"[{spec.minimum.tolist()}, {spec.maximum.tolist()}]."
            )
        return clipped

    return cast


def _spec(space: Any, name: str, owner: str, is_action: bool) -> types.NestedArraySpec:
    kind = _kind(space)
    if kind == "Dict":
        parts = space.spaces if is_action else _without_texts(space.spaces) or space.spaces
        return {
            key: _spec(child, f"{name}/{key}", owner, is_action) for key, child in parts.items()
        }
    if kind == "Tuple":
        return tuple(
            _spec(child, f"{name}/tuple_{index}", owner, is_action)
            for index, child in enumerate(space.spaces)
        )
    if kind == "Box":
        return _box_spec(space, name, owner, is_action)
    if kind == "Discrete":
        lowest = int(getattr(space, "start", 0))
        highest = lowest + int(space.n) - 1
        if not is_action:
            name = category_name(name, lowest, highest)
        return array_spec.BoundedArraySpec((), np.int64, lowest, highest, name)
    if kind == "MultiDiscrete":
        low = np.broadcast_to(getattr(space, "start", 0), space.shape)  # gym has no start
        high = low + space.nvec - 1
        if not is_action:
            name = category_name(name, low, high)
        return IntegerSpec(space.shape, space.dtype, low, high, name)
    if kind == "MultiBinary":
        return IntegerSpec(space.shape, space.dtype, 0, 1, name)
    raise ConfigError(
        f"{owner} has the {name} space {space}, which has no TF-Agents spec. "
        f"Supported: {', '.join(_SUPPORTED)}; a text beside others in a Dict of observations is "
        "left out. Convert it in a wrapper of the environment."
    )


def _is_text(space: Any) -> bool:
    """Returns whether a space has strings: Text, or a class of another package."""
    return getattr(getattr(space, "dtype", None), "kind", None) == "U"


def _without_texts(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: space for key, space in parts.items() if not _is_text(space)}


def _kind(space: Any) -> str | None:
    """Returns the gym or gymnasium class of the space, by name; None if it is not supported.

    Does not use isinstance, because importing gymnasium takes time.
    """
    for cls in type(space).__mro__:
        if cls.__name__ in _SUPPORTED and cls.__module__.split(".")[0] in ("gym", "gymnasium"):
            return cls.__name__
    return None


def _box_spec(space: Any, name: str, owner: str, is_action: bool) -> array_spec.BoundedArraySpec:
    low, high = np.asarray(space.low), np.asarray(space.high)
    if np.dtype(space.dtype).kind == "f":
        make, dtype = array_spec.BoundedArraySpec, np.float32
        low = _as_float32(low, towards=np.inf if is_action else -np.inf)
        high = _as_float32(high, towards=-np.inf if is_action else np.inf)
        if is_action:
            _check_bounded(low, high, name, owner)
    else:
        make, dtype = IntegerSpec, np.uint8 if space.dtype == bool else space.dtype
    if low.size and np.all(low == low.flat[0]) and np.all(high == high.flat[0]):
        low, high = low.flat[0], high.flat[0]  # one number, because images would print thousands
    return make(space.shape, dtype, low, high, name)


def _as_float32(bounds: NDArray[Any], towards: float) -> NDArray[Any]:
    """Returns bounds as float32; if inexact, the neighbour in the direction of `towards`."""
    with np.errstate(over="ignore"):
        rounded = bounds.astype(np.float32)
        is_beyond = rounded < bounds if towards > 0 else rounded > bounds
        return np.where(is_beyond, np.nextafter(rounded, np.float32(towards)), rounded)


def _check_bounded(low: NDArray[Any], high: NDArray[Any], name: str, owner: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        unbounded = np.flatnonzero(~np.isfinite(high - low))
    if unbounded.size:
        raise ConfigError(
            f"{owner} has an unbounded {name} space (dimensions {unbounded.tolist()}: low "
            f"{low.flat[unbounded[0]]}, high {high.flat[unbounded[0]]}). SAC needs finite bounds: "
            "its actions are a tanh scaled to them. Declare a Box with finite low and high."
        )
