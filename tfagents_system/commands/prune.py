"""Deletes files that an experiment does not need to be resumed, evaluated or compared.

Example: sac prune logs/pendulum --keep_policies 5 --dry_run

Deletes older policy checkpoints, older checkpoints of the training state, and remains of killed
saves. Keeps the newest complete checkpoint, the newest policies, the best policy, episodes, logs
and videos.
"""

import pathlib
import shutil
from typing import Annotated

from tfagents_system.commands.list_runs import size_and_change
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.core.state.generations import generations, newest_intact_generation
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.launch.experiment.lock import take_lock


def prune(
    exp_dir: pathlib.Path,
    /,
    keep_policies: Annotated[int, AtLeast(1)] = 5,
    dry_run: bool = False,
) -> None:
    """Deletes folders, and prints each with the space that it frees.

    Args:
      exp_dir: Folder of the experiment.
      keep_policies: Number of newest policy checkpoints to keep.
      dry_run: Only print.

    Raises:
      ConfigError: If there is no such experiment, or files are to be deleted while it is running.
    """
    paths = existing_experiment(exp_dir)
    if not paths.provenance.exists():
        raise ConfigError(f"{exp_dir} has no provenance.json: only what a run has made is pruned.")
    if not dry_run:  # which changes nothing
        take_lock(paths.lock)  # until this process ends
    freed = 0
    for folder in [*superfluous_checkpoints(paths), *paths.policy_checkpoints()[:-keep_policies]]:
        size, _ = size_and_change(folder)
        freed += size
        print(f"{folder}  {format_bytes(size)}")
        if not dry_run:
            shutil.rmtree(folder)
    print(f"{format_bytes(freed)} {'would be' if dry_run else 'are'} free.")


def superfluous_checkpoints(paths: ExperimentPaths) -> list[pathlib.Path]:
    """Returns unfinished checkpoints, and those older than the newest complete one.

    Newer damaged ones stay, in case somebody wants to look at them.
    """
    newest = newest_intact_generation(paths.checkpoints)
    older = [] if newest is None else [
        path for path in generations(paths.checkpoints) if int(path.name) < int(newest.name)
    ]  # fmt: skip
    return [*older, *sorted(paths.checkpoints.glob(".tmp-*"))]
