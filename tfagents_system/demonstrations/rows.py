"""Turns demonstrations into rows and samples, as the replay buffer's items have them."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tree
from numpy.typing import NDArray

from tfagents_system.core.nests import Nest
from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import newest_frames
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.transition import FIRST, LAST, MID, Step
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    TERMINATED,
    Arrays,
    Episode,
    named_leaves,
)
from tfagents_system.environments.time_left import is_used_up


class Rows(NamedTuple):
    """The rows of all episodes, one after another, and where samples begin."""

    columns: list[NDArray[Any]]  # [R, size], as `Codec` packs a Step
    starts: NDArray[np.int32]  # [S], first rows of windows


def rows_of(
    episodes: Iterable[Episode],
    codec: Codec,
    layout: ItemLayout,
    gamma: float,
    time_aware: bool = False,
) -> Rows:
    """Returns the rows of `episodes`; leaves out those without a sample.

    The samples are those of `services/adder.py`: windows of `layout.window` rows. They lie within
    one episode; a return over several steps ends with it, because FIRST rows follow.

    Args:
      episodes: Must fit the spec; see `fit`.
      codec: Codec of one Step, with single frames.
      layout: Layout of the items.
      gamma: Discounts the return so far.
      time_aware: Whether an episode that was cut at the horizon has terminated.

    Raises:
      ValueError: If a number is too large; the message names its leaf.
    """
    columns: list[list[NDArray[Any]]] = []
    starts: list[NDArray[np.int32]] = []
    num_rows = 0
    for episode in episodes:
        num_padding = layout.num_padding(episode.length)
        own = np.fromiter(_starts(episode.length + num_padding, layout), np.int32)
        if own.size:
            try:
                columns.append(codec.pack_rows(
                    _steps(episode, num_padding, codec, layout, gamma, time_aware)
                ))  # fmt: skip
            except ValueError as error:
                raise ValueError(f"{episode.origin}: {error}") from error
            starts.append(num_rows + own)
            num_rows += len(columns[-1][0])
    after = [
        np.zeros((layout.window, spec.shape[0]), spec.dtype.as_numpy_dtype)  # FIRST is 0
        for spec in codec.columns
    ]
    joined = [np.concatenate(parts) for parts in zip(*columns, after, strict=True)]
    return Rows(joined, np.concatenate([*starts, np.empty(0, np.int32)]))


def _starts(length: int, layout: ItemLayout) -> Iterator[int]:
    """Yields the rows of an episode, with its padding, at which samples begin."""
    if not layout.is_sequence:
        yield from range(length)
        return
    for last in range(layout.length, length + 1):
        if layout.ends_sequence(last):
            yield last - layout.length


def _steps(
    episode: Episode,
    num_padding: int,
    codec: Codec,
    layout: ItemLayout,
    gamma: float,
    time_aware: bool,
) -> Step:
    """Returns the Step of each row: the first once per stacked frame, the others, and padding."""
    length, spec = episode.length, codec.spec
    num_first = layout.frame_stack
    counts = num_first, length, num_padding

    def column(first: float, others: Any, padding: float) -> NDArray[np.float32]:
        parts = [np.full(count, value) for count, value in zip(
            counts, (first, 0.0, padding), strict=True
        )]  # fmt: skip
        parts[1] = np.broadcast_to(others, length)
        return np.concatenate(parts).astype(np.float32)

    def padded(array: NDArray[Any]) -> NDArray[Any]:
        ends = [np.zeros((count, *array.shape[1:]), array.dtype) for count in counts]
        return np.concatenate([ends[0], array, ends[2]])

    def repeated(array: NDArray[Any]) -> NDArray[Any]:
        index = np.repeat(np.arange(length + 1), [num_first, *[1] * (length - 1), 1 + num_padding])
        return array[index]

    observation = _as_nest(episode.observations, OBSERVATION, spec.observation)
    if num_first > 1:
        observation = newest_frames(observation, spec.observation)
    discount = np.ones(length)
    is_cut_at_horizon = time_aware and is_used_up(tree.map_structure(lambda a: a[-1], observation))
    discount[-1] = 0 if episode.end == TERMINATED or is_cut_at_horizon else 1
    return_so_far: Any = ()
    if spec.return_so_far != ():
        return_so_far = column(0, _returns(episode.rewards, gamma), 0)
    num_rows = sum(counts)
    return Step(
        column(FIRST, MID, LAST),
        tree.map_structure(repeated, observation),
        tree.map_structure(padded, _as_nest(episode.actions, ACTION, spec.action)),
        padded(episode.rewards),
        column(0, discount, 0),
        tree.map_structure(
            lambda leaf: np.zeros((num_rows, *leaf.shape), leaf.dtype.as_numpy_dtype), spec.extras
        ),
        return_so_far,
    )


def _returns(rewards: NDArray[np.float32], gamma: float) -> list[np.float32]:
    factor = np.float32(gamma)
    return list(itertools.accumulate(list(rewards), lambda total, new: factor * total + new))


def _as_nest(arrays: Arrays, name: str, spec: Nest) -> Nest:
    leaves = named_leaves(spec, name)
    found = [_with_channels(arrays[leaf], tuple(of_leaf.shape)) for leaf, of_leaf in leaves.items()]
    return tree.unflatten_as(spec, found)


def _with_channels(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns gray frames with the axis of 1 channel that `shape` has, or without it."""
    if (*array.shape[1:], 1) == shape:
        return array[..., np.newaxis]
    return array[..., 0] if array.shape[1:] == (*shape, 1) else array
