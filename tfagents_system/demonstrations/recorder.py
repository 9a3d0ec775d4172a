"""Records episodes of any loop as demonstrations."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

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
    named_leaves,
    write_episode,
)


class Recorder:
    """Writes an episode to a file of `folder` when it ends.

        recorder = Recorder("demonstrations", "MyRobot-v0")
        recorder.reset(observation)
        recorder.step(action, observation, reward, terminated, truncated)

    Call `reset` after that of the environment, and `step` after each of its steps, with what they
    returned. An episode that is not over at the next `reset` is dropped. Only one may write to a
    folder at a time. Needs no TensorFlow.
    """

    def __init__(self, folder: str | pathlib.Path, environment: str | None = None):
        """Makes `folder`; `environment` is an id for the files' heads."""
        self._folder = pathlib.Path(folder)
        self._environment = environment
        make_folder_durably(self._folder)
        self._steps: dict[str, list[Any]] = {}

    def reset(self, observation: Any) -> None:
        """Begins an episode."""
        self._steps = {REWARD: []}
        self._add(named_leaves(_as_stored(observation), OBSERVATION))

    def step(
        self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool
    ) -> pathlib.Path | None:
        """Adds an env step; returns the file if it was the episode's last one.

        Raises:
          ConfigError: If no episode has begun, or a leaf is missing in some steps.
          ValueError: If a leaf changes its shape.
        """
        if not self._steps:
            raise ConfigError("Recorder.step needs Recorder.reset before each episode.")
        self._add(named_leaves(_as_stored(action), ACTION))
        self._add(named_leaves(_as_stored(observation), OBSERVATION))
        self._steps[REWARD].append(np.float32(reward))
        if not (terminated or truncated):
            return None
        arrays = {name: np.stack(steps) for name, steps in self._steps.items()}
        self._steps = {}
        path = self._next_file()
        end = TERMINATED if terminated else TRUNCATED
        write_episode(path, episode_of(arrays, end, self._environment, str(path)))
        return path

    def _add(self, leaves: dict[str, Any]) -> None:
        for name, leaf in leaves.items():
            self._steps.setdefault(name, []).append(leaf)

    def _next_file(self) -> pathlib.Path:
        names = [path.name for path in self._folder.glob("episode_*.npz")]
        numbers = [int(m[1]) for m in map(re.compile(r"episode_(\d+)\.npz").fullmatch, names) if m]
        return self._folder / f"episode_{max(numbers, default=-1) + 1:06d}.npz"


def _as_stored(nest: Any) -> Any:
    """Returns a copy of an observation or action, in which a list is an array, not a nest."""
    if isinstance(nest, Mapping):
        return {key: _as_stored(part) for key, part in nest.items()}
    return tuple(map(_as_stored, nest)) if isinstance(nest, tuple) else as_stored(nest)
