"""Finds what is wrong with an experiment's folder, for commands that show many experiments."""

import os
import pathlib

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths, is_experiment
from tfagents_system.core.state.provenance import read_provenance


def fault_of(folder: pathlib.Path) -> str | None:
    """Returns why an experiment's folder cannot be read or is incomplete, as text.

    None for a sound folder, and for one that has nothing of an experiment.
    """
    try:
        names = set(os.listdir(folder))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    paths = ExperimentPaths(folder)
    if is_experiment(folder):
        for path in (paths.policies, paths.episodes):
            if path.exists() and not path.is_dir():
                return f"{path} is no folder"
        try:
            read_provenance(paths.provenance, ("started_at",))
        except ConfigError as error:
            return str(error)
        return None
    parts = (paths.config, paths.params, paths.gin, paths.running, paths.incarnations,
             paths.checkpoints)  # fmt: skip
    found = [path.name for path in parts if path.name in names]
    if len(found) > 1 or paths.checkpoints.name in found and _has_generations(paths):
        return (
            f"it has {', '.join(found)}, but no {paths.provenance.name}, {paths.policies.name} or "
            f"{paths.episodes.name}: copy all of it, or move it away"
        )
    return None


def _has_generations(paths: ExperimentPaths) -> bool:
    return any(paths.checkpoints.glob("[0-9]" * 10))
