"""The file of a demonstrated episode.

An .npz file of NumPy, without pickled objects. An episode of T env steps has

    head                JSON: format, version, environment, end, and shape and dtype of all others
    observation         [T + 1, ...]; of a Dict or Tuple, observation/LEAF for each of its leaves
    action              [T, ...]; or action/LEAF
    reward              float32 [T]

`action[t]` was taken at `observation[t]`, and gave `reward[t]` and `observation[t + 1]`. `end` is
"terminated" (nothing can follow), "truncated" (a time limit or a person ended it) or "unfinished"
(the file does not know). `environment` is an id, or null.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name, leaves_by_name
from tfagents_system.core.nests import Nest
from tfagents_system.core.state.files import (
    make_folder_durably,
    open_regular,
    rename_durably,
    temporary_name,
    write_bytes_durably,
)

FORMAT, VERSION = "sac-demonstration", 1
MAX_BYTES = 2 * 10**9  # of the learner's memory, for all demonstrations of a run
OBSERVATION, ACTION, REWARD = "observation", "action", "reward"
TERMINATED, TRUNCATED, UNFINISHED = ENDS = ("terminated", "truncated", "unfinished")
_DAMAGES = (
    ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError,
    TypeError, AttributeError,  # a single array in place of an archive
)  # fmt: skip

Arrays = Mapping[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Episode:
    """A demonstrated episode of T env steps, T >= 1."""

    observations: Arrays  # [T + 1, ...], by the names of `named_leaves`
    actions: Arrays  # [T, ...]
    rewards: NDArray[np.float32]  # [T]
    end: str  # one of ENDS
    environment: str | None = None  # its id
    origin: str = "an episode"  # for messages
    left_out: tuple[str, ...] = ()  # what the file has but was not read, such as videos

    @property
    def length(self) -> int:
        """The number of env steps."""
        return len(self.rewards)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of its file, except the head."""
        return {**self.observations, **self.actions, REWARD: self.rewards}

    @property
    def spec(self) -> dict[str, str]:
        """Shape and dtype of an env step, such as "float32 [3]", by name."""
        return {n: f"{a.dtype.name} {list(a.shape[1:])}" for n, a in self.arrays.items()}


def named_leaves(nest: Nest, name: str) -> dict[str, Any]:
    """Returns the leaves of an observation or action by name: {"arm": x} has "observation/arm".

    Raises:
      ConfigError: If two leaves have the same name.
    """
    leaves = tree.flatten_with_path(nest)
    return leaves_by_name(leaves, lambda path: leaf_name(name, *path), name)


def as_stored(array: Any) -> NDArray[Any]:
    """Returns a copy of numbers as they are stored: float64 as float32, bool as uint8."""
    stored = np.array(array)
    narrower = {"f": np.float32, "b": np.uint8}.get(stored.dtype.kind)
    return stored if narrower is None else stored.astype(narrower)


def write_episode(path: pathlib.Path, episode: Episode) -> None:
    """Writes `episode` to `path`, atomically and durably."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "environment": episode.environment,
        "end": episode.end,
        "arrays": _layout(episode.arrays),
    }
    content = io.BytesIO()
    np.savez_compressed(content, head=np.array(json.dumps(head)), **episode.arrays)
    write_bytes_durably(path, content.getvalue())


def file_name(index: int) -> str:
    """Returns the name of an episode's file in a folder of several."""
    return f"episode_{index:06d}.npz"


def write_episodes(
    folder: pathlib.Path,
    episodes: Iterable[Episode],
    prepare: Callable[[], object] | None = None,
) -> None:
    """Writes a new folder with a file of each episode; it appears when it is complete.

    Args:
      folder: Must be missing, or empty.
      episodes: In the order of the files' names.
      prepare: Called right before the folder appears; if it raises, nothing stays.
    """
    unfinished = temporary_name(folder)
    try:
        make_folder_durably(unfinished)
        for index, episode in enumerate(episodes):
            write_episode(unfinished / file_name(index), episode)
        rename_durably(unfinished, folder, prepare)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_episode(path: pathlib.Path) -> Episode:
    """Returns the episode in `path`.

    Raises:
      ConfigError: If it cannot be read, is of another format, or is damaged; the message has the
        path and what is wrong.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            if "head" not in archive:
                raise ConfigError(
                    f"{path}: not a demonstration: it has the arrays {sorted(archive)}, but no "
                    "head. docs/demonstrations.md describes the format."
                )
            head = _read_head(path, str(archive["head"]))
            arrays = {name: archive[name] for name in archive if name != "head"}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except _DAMAGES as error:
        raise ConfigError(f"{path}: damaged, or no .npz file ({error}).") from error
    for name in sorted(head["arrays"].keys() | arrays.keys()):
        said, found = head["arrays"].get(name), _layout(arrays).get(name)
        if said != found:
            raise ConfigError(f"{path}: damaged: {name} is {found}, but the head says {said}.")
    return episode_of(arrays, head["end"], head["environment"], str(path))


def episode_of(
    arrays: Arrays, end: str, environment: str | None = None, origin: str = "an episode"
) -> Episode:
    """Returns the episode in `arrays`, named as in the file.

    Raises:
      ConfigError: If an array is missing, has another name or another length.
    """
    parts: dict[str, dict[str, NDArray[Any]]] = {OBSERVATION: {}, ACTION: {}, REWARD: {}}
    for name, array in arrays.items():
        kind = name.partition("/")[0]
        if kind not in parts or (kind == REWARD and name != REWARD):
            raise ConfigError(
                f"{origin}: {name} is not an array of a demonstration; expected observation, "
                "action and reward, the first two with /LEAF for each leaf of a nest."
            )
        parts[kind][name] = array
    for kind, named in parts.items():
        if not named:
            raise ConfigError(f"{origin}: it has no {kind}.")
    rewards = parts[REWARD][REWARD]
    if rewards.shape != (rewards.size,) or not rewards.size:
        raise ConfigError(
            f"{origin}: reward has shape {list(rewards.shape)}; expected one number for each of "
            "at least one env step."
        )
    for kind, length in ((OBSERVATION, rewards.size + 1), (ACTION, rewards.size)):
        for name, array in parts[kind].items():
            if array.ndim < 1 or len(array) != length:
                raise ConfigError(
                    f"{origin}: {name} has shape {list(array.shape)}; its first axis must have "
                    f"{length} entries, because there are {rewards.size} rewards."
                )
    rewards = rewards.astype(np.float32)
    return Episode(parts[OBSERVATION], parts[ACTION], rewards, end, environment, origin)


def digest(episodes: Iterable[Episode]) -> str:
    """Returns the SHA-256 of what agents learn from: names, numbers and ends, in order."""
    found = hashlib.sha256()
    for episode in episodes:
        for name, array in sorted(episode.arrays.items()):
            found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            found.update(np.ascontiguousarray(array).data)
        found.update(episode.end.encode())
    return found.hexdigest()


def _layout(arrays: Arrays) -> dict[str, str]:
    return {name: f"{array.dtype.name} {list(array.shape)}" for name, array in arrays.items()}


def _read_head(path: pathlib.Path, text: str) -> dict[str, Any]:
    head = json.loads(text)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ConfigError(f"{path}: not a demonstration: its head is {text[:100]!r}.")
    if head.get("version") != VERSION:
        raise ConfigError(
            f"{path}: version {head.get('version')!r} of the format; this program reads {VERSION}."
        )
    environment = head.get("environment")
    is_named = environment is None or isinstance(environment, str)
    if head.get("end") not in ENDS or not isinstance(head.get("arrays"), dict) or not is_named:
        raise ConfigError(f"{path}: damaged: its head is {text[:300]!r}.")
    return head
