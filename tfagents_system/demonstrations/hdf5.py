"""Reads HDF5 files of offline reinforcement learning: those of Minari and of D4RL.

Minari has a group for each episode, with T + 1 observations. D4RL has all steps one after another;
where it lacks the observation after an episode's last step, that step is left out, unless it is
terminal: then nothing depends on that observation, and the one before replaces it.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    REWARD,
    TERMINATED,
    TRUNCATED,
    UNFINISHED,
    Arrays,
    Episode,
    as_stored,
    episode_of,
)


def read_hdf5(path: pathlib.Path) -> list[Episode]:
    """Returns the episodes in a file of Minari or D4RL.

    Raises:
      ConfigError: If it cannot be read, or is of another format.
    """
    import h5py  # takes a moment, and few runs need it

    try:
        with h5py.File(path, "r") as file:
            if any(name.startswith("episode_") for name in file):
                return list(_of_minari(file, path))
            if {"observations", "actions", "rewards", "terminals"} <= file.keys():
                return list(_of_d4rl(file, path))
            raise ConfigError(
                f"{path}: not of Minari or D4RL: it has {', '.join(sorted(file)) or 'nothing'}."
            )
    except (OSError, LookupError, ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"{path}: damaged, or no HDF5 file of demonstrations ({error})."
        ) from error


def _of_minari(file: Any, path: pathlib.Path) -> Iterator[Episode]:
    spec = json.loads(file.attrs.get("env_spec", "{}") or "{}")
    names = [name for name in file if name.startswith("episode_")]
    for name in sorted(names, key=lambda name: int(name.rpartition("_")[2])):
        group = file[name]
        arrays = _leaves(group["observations"], OBSERVATION) | _leaves(group["actions"], ACTION)
        arrays[REWARD] = np.asarray(group["rewards"], np.float32)
        is_terminated, is_truncated = (
            bool(np.asarray(group[key])[-1:].any()) for key in ("terminations", "truncations")
        )
        end = TERMINATED if is_terminated else TRUNCATED if is_truncated else UNFINISHED
        yield episode_of(arrays, end, spec.get("id"), f"{path}, {name}")


def _of_d4rl(file: Any, path: pathlib.Path) -> Iterator[Episode]:
    rewards = np.asarray(file["rewards"], np.float32).reshape(-1)
    observations = _leaves(file["observations"], OBSERVATION)
    actions = _leaves(file["actions"], ACTION)
    following: Arrays = {}
    if "next_observations" in file:
        following = _leaves(file["next_observations"], OBSERVATION)
    terminal = np.asarray(file["terminals"]).reshape(-1).astype(bool)
    timeout = _timeouts(file, path, observations, following, len(rewards))
    begin = 0
    for last in range(len(rewards)):
        if not (terminal[last] or timeout[last] or last + 1 == len(rewards)):
            continue
        end = TERMINATED if terminal[last] else TRUNCATED if timeout[last] else UNFINISHED
        # Without the observation after it, a last step that is not terminal is left out.
        stop = last + 1 if terminal[last] or following else last
        arrays: dict[str, NDArray[Any]] = {REWARD: rewards[begin:stop]}
        for name, array in observations.items():
            after = following[name][last] if following else array[last]
            tail = [after[np.newaxis]] if stop == last + 1 else [array[last : last + 1]]
            arrays[name] = np.concatenate([array[begin:stop], *tail])
        arrays |= {name: array[begin:stop] for name, array in actions.items()}
        if stop > begin:
            yield episode_of(arrays, end, None, f"{path}, steps {begin} to {last}")
        begin = last + 1


def _timeouts(
    file: Any, path: pathlib.Path, observations: Arrays, following: Arrays, length: int
) -> NDArray[np.bool_]:
    """Returns which steps end an episode without a termination.

    In a file without timeouts, an episode ends where the next step begins elsewhere.

    Raises:
      ConfigError: If neither tells where episodes end.
    """
    if "timeouts" in file:
        return np.asarray(file["timeouts"]).reshape(-1).astype(bool)
    if not following:
        raise ConfigError(
            f"{path}: it has neither timeouts nor next_observations, so that nobody knows where "
            "its episodes end. Add timeouts: true for the last step of each."
        )
    jumps = np.zeros(length, bool)
    for name, array in observations.items():
        differs = following[name][: length - 1] != array[1:length]
        jumps[: length - 1] |= differs.reshape(length - 1, -1).any(axis=1)
    return jumps


def _leaves(node: Any, name: str) -> dict[str, NDArray[Any]]:
    """Returns the datasets of a group, or one dataset, by name."""
    if not hasattr(node, "keys"):
        return {name: as_stored(node)}
    return {
        leaf: array for key in node for leaf, array in _leaves(node[key], f"{name}/{key}").items()
    }
