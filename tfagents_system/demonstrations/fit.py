"""Tells whether demonstrations fit an environment."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.nests import Nest
from tfagents_system.data.frames import single_frame_spec
from tfagents_system.data.images import is_image
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    REWARD,
    UNFINISHED,
    Arrays,
    Episode,
    named_leaves,
)

ROUNDING = 1e-5  # share of the range by which an action may exceed a bound, as in environments


class Specs(NamedTuple):
    """Specs, horizon and frame stack of an agent's environment."""

    observation: Nest  # of specs with shape and dtype, frames stacked
    action: Nest  # of specs, also with bounds
    horizon: int
    frame_stack: int = 1  # a demonstration may have single frames, too


def misfits(episode: Episode, specs: Specs) -> Iterator[str]:
    """Yields what keeps an agent from learning from `episode`, in words; nothing if it fits."""
    for name, nest, arrays in (
        (OBSERVATION, specs.observation, episode.observations),
        (ACTION, specs.action, episode.actions),
    ):
        leaves = named_leaves(nest, name)
        for missing in sorted(leaves.keys() - arrays.keys()):
            yield f"{missing} is missing"
        for unknown in sorted(arrays.keys() - leaves.keys()):
            yield f"the environment has no {unknown}"
        for leaf in sorted(leaves.keys() & arrays.keys()):
            spec = leaves[leaf]
            allowed = {tuple(spec.shape)}
            if name == OBSERVATION:
                allowed |= _other_shapes(spec, specs.frame_stack)
            yield from _misfits_of_leaf(leaf, arrays[leaf], spec, allowed)
    yield from _bad_numbers(episode.arrays)
    yield from _beyond_bounds(episode.actions, named_leaves(specs.action, ACTION))


def remarks(episode: Episode, specs: Specs) -> Iterator[str]:
    """Yields what is unusual but does not prevent learning, in words."""
    if episode.end == UNFINISHED:
        yield "its last step is neither terminated nor truncated: it counts as truncated"
    if episode.length > specs.horizon:
        yield f"it has {episode.length} env steps, more than the horizon, {specs.horizon}"
    if episode.left_out:
        yield f"{', '.join(episode.left_out)} was not read"
    yield from _beyond_bounds(episode.observations, named_leaves(specs.observation, OBSERVATION))


def _other_shapes(spec: Any, frame_stack: int) -> set[tuple[int, ...]]:
    """Returns the shapes of single frames; a gray frame may have an axis of 1 channel, or not."""
    if not is_image(spec):
        return set()
    single = tuple(single_frame_spec(spec, frame_stack).shape)
    if len(single) == 2:
        return {single, (*single, 1)}
    return {single, single[:-1]} if single[-1] == 1 else {single}


def _misfits_of_leaf(
    name: str, array: NDArray[Any], spec: Any, allowed: Collection[tuple[int, ...]]
) -> Iterator[str]:
    shape, dtype = tuple(spec.shape), np.dtype(getattr(spec.dtype, "as_numpy_dtype", spec.dtype))
    if array.shape[1:] not in allowed:
        yield f"{name} has shape {list(array.shape[1:])}, in the environment {list(shape)}"
    elif not np.can_cast(array.dtype, dtype, "same_kind"):
        yield f"{name} has dtype {array.dtype}, in the environment {dtype}"
    elif dtype.kind in "iu" and not np.array_equal(array.astype(dtype), array):
        yield f"{name} has numbers that the environment's {dtype} cannot hold"


def _bad_numbers(arrays: Arrays) -> Iterator[str]:
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            yield f"{name} has dtype {array.dtype}, which is not a number"
        elif array.dtype.kind == "f" and not (is_finite := np.isfinite(array)).all():
            step = int(np.argwhere(~is_finite)[0][0]) + (name == REWARD)
            yield f"{name} has NaN or infinity, first at env step {step}"


def _beyond_bounds(arrays: Arrays, leaves: Mapping[str, Any]) -> Iterator[str]:
    """Yields which numbers lie outside the bounds of their specs, where these fit."""
    for name, array in arrays.items():
        spec: Any = leaves.get(name)
        has_bounds = hasattr(spec, "minimum") and array.shape[1:] == tuple(spec.shape)
        if not has_bounds or array.dtype.kind not in "biuf":
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            low: NDArray[np.float64] = np.asarray(spec.minimum, np.float64)
            high: NDArray[np.float64] = np.asarray(spec.maximum, np.float64)
            slack = np.where(np.isfinite(high - low), ROUNDING * (high - low), 0.0)
            is_beyond = (array < low - slack) | (array > high + slack)
        if is_beyond.any():
            number = array[is_beyond].flat[0]
            yield (
                f"{name} has {number:g}, first at env step {int(np.argwhere(is_beyond)[0][0])}, "
                f"outside the bounds [{np.min(low):g}, {np.max(high):g}]"
            )
