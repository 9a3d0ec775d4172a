"""Finds the stored replay buffer of an experiment."""

import pathlib
from typing import NamedTuple

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.generations import REPLAY_FOLDER, newest_intact_generation
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.core.state.run_spec import RunSpec


class StoredReplay(NamedTuple):
    """A replay buffer in a checkpoint."""

    folder: pathlib.Path
    spec: RunSpec  # describes its items


def find_replay(exp_dir: pathlib.Path) -> StoredReplay:
    """Returns the replay buffer in the newest intact checkpoint of an experiment.

    Raises:
      ConfigError: If there is none.
    """
    paths = existing_experiment(exp_dir)
    generation = newest_intact_generation(paths.checkpoints)
    if generation is None:
        raise ConfigError(
            f"{exp_dir}: it has no checkpoint, and so no stored replay buffer. A run makes one "
            "every checkpoint_period_itrs iterations, and when it stops."
        )
    if not paths.run_spec.exists():
        raise ConfigError(
            f"{exp_dir}: its replay buffer cannot be read, because {paths.run_spec}, which "
            "describes it, is missing."
        )
    return StoredReplay(generation / REPLAY_FOLDER, RunSpec.read(paths.run_spec))
