"""Reads data sets of LeRobot, versions 2 and 3 of its format.

A folder with meta/info.json, which describes the columns, and Parquet files in data/: a row for
each frame of an episode, with the observation, the action that was taken there, and its result
(next.reward, next.done). As the observation after the last frame is not stored, the last step is
left out, unless it is terminal: then nothing depends on that observation, and the one before
replaces it.
"""

import dataclasses
import io
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    REWARD,
    TERMINATED,
    TRUNCATED,
    UNFINISHED,
    Episode,
    as_stored,
    episode_of,
)

INFO = "meta/info.json"
VERSIONS = ("v2", "v3")
EPISODE, FRAME = "episode_index", "frame_index"
DONE, SUCCESS, TRUNCATION = "next.done", "next.success", "next.truncated"
REWARDS = ("next.reward", REWARD)
VIDEO, IMAGE = "video", "image"

Columns = Mapping[str, NDArray[Any]]  # [N, ...] each


def read_lerobot(folder: pathlib.Path, missing_reward: float | None = None) -> list[Episode]:
    """Returns the episodes of a data set; videos are left out.

    Args:
      folder: Folder that contains INFO.
      missing_reward: The reward of each step if the data set has none.

    Raises:
      ConfigError: If it cannot be read, or has no rewards, or pyarrow is missing.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError(
            f"{folder}: data sets of LeRobot are read with pyarrow, which cannot be imported "
            f"({error}). Install it: {how_to_install('lerobot')}"
        ) from error
    try:
        info = json.loads((folder / INFO).read_text())
        version, features = str(info["codebase_version"]), info["features"]
        if not version.startswith(VERSIONS):
            raise ConfigError(
                f"{folder}: version {version} of LeRobot's format; this program reads "
                f"{' and '.join(VERSIONS)}."
            )
        columns = _columns(folder, _wanted(features, folder))
        left_out = tuple(sorted(n for n, f in features.items() if f["dtype"] == VIDEO))
        if not {*REWARDS} & columns.keys():
            if missing_reward is None:
                raise ConfigError(
                    f"{folder}: it has no rewards (next.reward). To learn without them, by cloning "
                    "or GAIL, make demonstrations whose rewards are all 0: sac demonstrations "
                    f"convert {folder} --output FOLDER --missing_reward 0"
                )
            columns[REWARD] = np.full(len(columns[EPISODE]), missing_reward, np.float32)
        return list(_episodes(columns, folder, str(info.get("robot_type") or ""), left_out))
    except (OSError, KeyError, TypeError, ValueError, pyarrow.ArrowException) as error:
        raise ConfigError(
            f"{folder}: damaged, or no data set of LeRobot ({type(error).__name__}: {error})."
        ) from error


def _wanted(features: Mapping[str, Any], folder: pathlib.Path) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the columns to read."""
    others = (EPISODE, FRAME, DONE, SUCCESS, TRUNCATION, *REWARDS)
    wanted = {}
    for name, feature in features.items():
        kind = name.partition(".")[0]
        is_shown = kind in (OBSERVATION, ACTION) and feature["dtype"] not in (VIDEO, "string")
        if is_shown:
            wanted[name] = tuple(feature["shape"]) if feature["dtype"] != IMAGE else (-1,)
        elif name in others:
            wanted[name] = ()
    for kind in (OBSERVATION, ACTION):
        if not any(name.partition(".")[0] == kind for name in wanted):
            raise ConfigError(
                f"{folder}: it has no {kind} but in videos, which this program does not read."
            )
    return wanted


def _columns(folder: pathlib.Path, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    from pyarrow import parquet

    files = sorted((folder / "data").glob("*/*.parquet"))
    if not files:
        raise ConfigError(f"{folder}: it has no data/*/*.parquet.")
    tables = [parquet.read_table(file, columns=[*wanted]) for file in files]
    parts = [
        {name: _array(table[name], shape) for name, shape in wanted.items()} for table in tables
    ]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in wanted}
    order = np.lexsort((joined[FRAME], joined[EPISODE]))
    return {name: column[order] for name, column in joined.items()}


def _array(column: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns a column [N, *shape]; shape (-1,) is for encoded images."""
    if shape == (-1,):
        from PIL import Image

        encoded = (row["bytes"] for row in column.to_pylist())
        return np.stack([np.asarray(Image.open(io.BytesIO(one)).convert("RGB")) for one in encoded])
    flat, num_rows = column.combine_chunks(), len(column)
    while hasattr(flat, "flatten") and hasattr(flat.type, "value_type"):
        flat = flat.flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(num_rows, *shape)


def _episodes(
    columns: Columns, folder: pathlib.Path, robot: str, left_out: tuple[str, ...]
) -> Iterator[Episode]:
    (rewards,) = (columns[name] for name in REWARDS if name in columns)
    numbers, begins = np.unique(columns[EPISODE], return_index=True)
    for number, begin, end in zip(numbers, begins, [*begins[1:], len(rewards)], strict=True):
        own = {name: column[begin:end] for name, column in columns.items()}
        how, length = _end(own), len(rewards[begin:end])
        index = np.arange(length)
        if how == TERMINATED:
            index = np.append(index, length - 1)
        elif length < 2:
            continue  # its only step has no next observation
        num_steps = len(index) - 1
        shown = _leaves(own, OBSERVATION)
        arrays = {name: as_stored(column[index]) for name, column in shown.items()}
        for name, column in _leaves(own, ACTION).items():
            arrays[name] = as_stored(column[:num_steps])
        arrays[REWARD] = rewards[begin:end][:num_steps].astype(np.float32)
        origin = f"{folder}, episode {number}"
        episode = episode_of(arrays, how, robot or None, origin)
        yield dataclasses.replace(episode, left_out=left_out)


def _end(columns: Columns) -> str:
    """Returns how an episode ends, by the flags of its last frame.

    The format does not tell a terminal state from a time limit: next.done counts as terminal,
    unless next.success or next.truncated contradicts.
    """
    if DONE not in columns or not columns[DONE][-1]:
        return UNFINISHED
    is_cut = TRUNCATION in columns and bool(columns[TRUNCATION][-1])
    has_failed = SUCCESS in columns and not columns[SUCCESS][-1]
    return TRUNCATED if is_cut or has_failed else TERMINATED


def _leaves(columns: Columns, kind: str) -> dict[str, NDArray[Any]]:
    """Returns the columns of an observation or action by the names of its leaves."""
    own = {name: column for name, column in columns.items() if name.partition(".")[0] == kind}
    if len(own) == 1:
        return {kind: next(iter(own.values()))}
    return {name.replace(".", "/", 1): column for name, column in own.items()}
