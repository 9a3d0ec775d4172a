"""Reads the replay buffer of an experiment as demonstrations.

A worker's stream is cut into items, and successive items share rows: a block begins with the last
rows of the block before, a sequence shares all rows but its newest. These rows serve to join the
items to the stream again, as far as it is stored. Its FIRST rows separate the episodes.
"""

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.run_spec import RunSpec
from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import single_frame_spec
from tfagents_system.data.images import is_image, name_with_layout
from tfagents_system.data.item_description import described_item
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.transition import FIRST, MID, Step
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    MAX_BYTES,
    OBSERVATION,
    REWARD,
    TERMINATED,
    TRUNCATED,
    UNFINISHED,
    Arrays,
    Episode,
    episode_of,
)
from tfagents_system.demonstrations.experiment import find_replay
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.replay_files import stream_of
from tfagents_system.services.stored_items import StoredItem, stored_bytes, stored_items

Columns = list[NDArray[Any]]  # [rows, size] each


class _Stored(NamedTuple):
    """The layout of a run's items and rows, from its spec."""

    layout: ItemLayout
    codec: Codec  # of a Step whose observation and action are lists of leaves
    observations: list[str]  # their names
    actions: list[str]


def read_replay(folder: pathlib.Path) -> list[Episode]:
    """Returns the episodes in the newest checkpoint of an experiment's replay buffer.

    The rest of an episode whose beginning is no longer stored counts as an episode, except with
    images, because the frames before it, which an agent may stack, are missing. If the run stacked
    frames, single ones are returned.

    Raises:
      ConfigError: If the experiment has no checkpoint, is of another version, or holds more than
        MAX_BYTES.
    """
    replay, spec = find_replay(folder)
    stored = _stored(spec, folder)
    try:
        if (size := stored_bytes(replay)) > MAX_BYTES:
            raise ConfigError(
                f"{folder}: its replay buffer has {size:,} bytes; as demonstrations, {MAX_BYTES:,} "
                "are allowed. Record episodes of its policy instead: sac record."
            )
        runs = list(_joined(stored_items(replay, EXPERIENCE_TABLE), stored.layout))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{folder}: its checkpoint changed while it was read, as the experiment is running: "
            "start the same command again."
        ) from error
    name = folder.resolve().name
    episodes = (arrays for columns in runs for arrays in _episodes(columns, stored))
    return [
        episode_of(arrays, end, name, f"{folder}, episode {index}")
        for index, (arrays, end) in enumerate(episodes)
    ]


def _stored(spec: RunSpec, folder: pathlib.Path) -> _Stored:
    layout, columns = described_item(spec.item)
    layouts = spec.settings.get("image_layouts") or {}
    observations = {
        name: single_frame_spec(leaf, layout.frame_stack)
        for name, leaf in _leaves(spec.observation, OBSERVATION, layouts).items()
    }
    actions = _leaves(spec.action, ACTION, {})
    scalar = tf.TensorSpec([], tf.float32)
    step = Step(scalar, [*observations.values()], [*actions.values()], scalar, scalar)
    row = [tf.TensorSpec(column.shape[1:], column.dtype) for column in columns]
    # The policy's state and the return so far, which are not read, are at the end.
    size = row[0].shape[0] - Codec(step).columns[0].shape[0]
    codec = Codec(step._replace(extras=tf.TensorSpec([max(0, size)], tf.float32)))
    if codec.columns != row:
        raise ConfigError(
            f"{folder}: its replay buffer has rows of {_sizes(row)}, where this version reads "
            f"{_sizes(codec.columns)}."
        )
    return _Stored(layout, codec, [*observations], [*actions])


def _leaves(
    described: Mapping[str, str], name: str, layouts: Mapping[str, str]
) -> dict[str, tf.TensorSpec]:
    """Returns the specs of the leaves of an observation or action by their names in an episode."""
    leaves = {}
    for path, text in described.items():
        dtype, _, rest = text.partition(" ")
        shape = json.loads(rest[: rest.index("]") + 1])
        inside = "" if path == "all" else path  # a nest that is one leaf
        layout = layouts.get(inside or OBSERVATION)
        image = name_with_layout(None, layout) if layout else None
        full = f"{name}/{inside}" if inside else name
        leaves[full] = tf.TensorSpec(shape, tf.as_dtype(dtype), image)
    return leaves


def _sizes(columns: Iterable[tf.TensorSpec]) -> str:
    return ", ".join(f"{column.shape[0]} {column.dtype.name}" for column in columns)


def _joined(items: Iterable[StoredItem], layout: ItemLayout) -> Iterator[Columns]:
    """Yields the columns [R, size] of rows that follow one another in a slot of a worker."""
    num_shared = layout.rows - layout.num_new
    parts: list[list[Columns]] = []
    open_ends: dict[tuple[int, bytes], list[Columns]] = {}
    for item in items:
        stream = stream_of(item.number)
        begin = stream, _content(item.columns, slice(num_shared))
        if joined := open_ends.pop(begin, None):
            joined.append([column[num_shared:] for column in item.columns])
        else:
            joined = [item.columns]
            parts.append(joined)
        open_ends[stream, _content(item.columns, slice(layout.num_new, None))] = joined
    for joined in parts:
        yield [np.concatenate(column) for column in zip(*joined, strict=True)]


def _content(columns: Columns, rows: slice) -> bytes:
    return b"".join(column[rows].tobytes() for column in columns)


def _between_terminations(
    spans: NDArray[np.intp], discount: NDArray[np.float32]
) -> Iterator[tuple[int, int]]:
    """Yields, for each part of `spans`, the row before its first step and the row of its last.

    A part ends with a termination: a copy with another goal continues after reaching that goal.
    """
    for before, last in spans:
        for end in np.flatnonzero(discount[before + 1 : last + 1] == 0) + before + 1:
            yield before, end
            before = end
        if before < last:
            yield before, last


def _episodes(columns: Columns, stored: _Stored) -> Iterator[tuple[Arrays, str]]:
    """Yields the arrays and the ends of the episodes in the rows of `_joined`."""
    step: Step = stored.codec.unpack(columns)
    needs_beginning = any(map(is_image, stored.codec.spec.observation))
    # Before its first MID row and after its last one, an episode has other rows.
    is_mid = np.concatenate([[False], step.step_type[1:] == MID, [False]])
    changes = np.flatnonzero(np.diff(is_mid))
    for before, last in _between_terminations(changes.reshape(-1, 2), step.discount):
        if needs_beginning and step.step_type[before] != FIRST:
            continue
        seen, after = slice(before, last + 1), slice(before + 1, last + 1)
        observations = [leaf[seen] for leaf in step.observation]
        actions = [leaf[after] for leaf in step.action]
        arrays = {
            **dict(zip(stored.observations, observations, strict=True)),
            **dict(zip(stored.actions, actions, strict=True)),
            REWARD: step.reward[after],
        }
        is_followed = last + 1 < len(step.step_type)
        end = TRUNCATED if is_followed else UNFINISHED
        yield arrays, TERMINATED if step.discount[last] == 0 else end
