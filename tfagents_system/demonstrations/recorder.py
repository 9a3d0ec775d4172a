"""Records episodes of any loop as demonstrations."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import make_folder_durably
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    REWARD,
    TERMINATED,
    TRUNCATED,
    as_stored,
    episode_of,
    file_name,
    named_leaves,
    write_episode,
)


class Recorder:
    """Writes an episode to a file of `folder` when it ends.

        recorder = Recorder("demonstrations", "MyRobot-v0")
        recorder.reset(observation)
        recorder.step(action, observation, reward, terminated, truncated)

    Call `reset` after the environment's, and `step` after each of its steps, with what they
    returned. An episode that is not over at the next `reset` is dropped. Only one recorder may
    write to a folder at a time. Needs no TensorFlow.
    """

    def __init__(self, folder: str | pathlib.Path, environment: str | None = None):
        """Makes `folder`; `environment` is an id for the files' heads."""
        self._folder = pathlib.Path(folder)
        self._environment = environment
        make_folder_durably(self._folder)
        self._steps: dict[str, list[NDArray[Any]]] = {}  # by leaf; empty between episodes
        self._shapes: dict[str, tuple[int, ...]] = {}  # of the leaves of each step
        self._end = ""  # how the episode has ended, until it is written

    def reset(self, observation: Any) -> None:
        """Begins an episode.

        Raises:
          ConfigError: If the observation is not of finite numbers.
        """
        self._steps, self._end = {}, ""
        leaves = _checked(observation, OBSERVATION)
        self._shapes = _shapes(leaves) | {REWARD: ()}
        self._steps = {REWARD: []} | {name: [leaf] for name, leaf in leaves.items()}

    def step(
        self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool
    ) -> pathlib.Path | None:
        """Adds an env step; returns the file if it was the episode's last one.

        A rejected step is not added: the episode can continue with another one.

        Raises:
          ConfigError: If no episode has begun, if something is not of finite numbers, or if it has
            other leaves or shapes than before in the episode; the message names it.
          OSError: If the episode has ended, and cannot be written; see `save`.
        """
        if self._end:
            raise ConfigError(
                "The episode has ended, and is not written yet: call Recorder.save, or "
                "Recorder.reset to drop it."
            )
        if not self._steps:
            raise ConfigError("Recorder.step needs Recorder.reset before each episode.")
        actions = _checked(action, ACTION)
        leaves = actions | _checked(observation, OBSERVATION) | _checked(reward, REWARD)
        is_first = not self._steps[REWARD]
        shapes = self._shapes | _shapes(actions) if is_first else self._shapes
        _check_shapes(leaves, shapes)
        self._shapes = shapes
        for name, leaf in leaves.items():
            self._steps.setdefault(name, []).append(leaf)
        if not (terminated or truncated):
            return None
        self._end = TERMINATED if terminated else TRUNCATED
        return self.save()

    def save(self) -> pathlib.Path:
        """Writes the episode that has ended; returns its file.

        Only needed if the last `step` raised OSError, such as for a full disk: until the next
        `reset`, nothing of the episode is lost.

        Raises:
          ConfigError: If no episode waits to be saved.
          OSError: If the file cannot be written.
        """
        if not self._end:
            raise ConfigError("Recorder.save needs an episode that has ended and is not written.")
        arrays = {name: np.stack(steps) for name, steps in self._steps.items()}
        arrays[REWARD] = arrays[REWARD].astype(np.float32)
        path = self._next_file()
        write_episode(path, episode_of(arrays, self._end, self._environment, str(path)))
        self._steps, self._end = {}, ""
        return path

    def _next_file(self) -> pathlib.Path:
        names = [path.name for path in self._folder.glob("episode_*.npz")]
        numbers = [int(m[1]) for m in map(re.compile(r"episode_(\d+)\.npz").fullmatch, names) if m]
        return self._folder / file_name(max(numbers, default=-1) + 1)


def _shapes(leaves: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    return {name: leaf.shape for name, leaf in leaves.items()}


def _check_shapes(
    leaves: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    for name in sorted(shapes.keys() ^ leaves.keys()):
        fault = "is missing" if name in shapes else "was not there before"
        raise ConfigError(
            f"{name} {fault} in a step of Recorder; expected {', '.join(sorted(shapes))}, as "
            "before in the episode."
        )
    for name, leaf in leaves.items():
        if leaf.shape != shapes[name]:
            allowed = f"{list(shapes[name])}, as before in the episode"
            raise ConfigError(
                f"{name} has shape {list(leaf.shape)} in a step of Recorder; expected "
                f"{allowed if shapes[name] else 'a number'}."
            )


def _checked(nest: Any, name: str) -> dict[str, NDArray[Any]]:
    """Returns copies of the leaves of an observation, action or reward, as they are stored."""
    leaves = named_leaves(_as_stored(nest, name), name)
    for leaf_name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            raise ConfigError(f"{leaf_name} is not finite in a step of Recorder.")
    return leaves


def _as_stored(nest: Any, name: str) -> Any:
    """Returns a copy of a nest, in which a list is an array, not a nest."""
    if isinstance(nest, Mapping):
        return {key: _as_stored(part, f"{name}/{key}") for key, part in nest.items()}
    if isinstance(nest, tuple):
        return tuple(_as_stored(part, f"{name}/{i}") for i, part in enumerate(nest))
    try:
        stored = as_stored(nest)
    except ValueError:  # rows of several lengths
        stored = np.array(None)
    if stored.dtype.kind not in "iuf":
        raise ConfigError(
            f"{name} is a {type(nest).__name__}, not an array of numbers in a step of Recorder."
        )
    return stored
