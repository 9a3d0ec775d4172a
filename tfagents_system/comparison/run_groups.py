"""Groups experiments that differ only in the seed, as a command line names them."""

import pathlib
from typing import NamedTuple

from tfagents_system.core.display import printable
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment, is_experiment


class RunGroup(NamedTuple):
    """A group of experiments: the seeds of one setting."""

    name: str  # for display
    experiments: list[ExperimentPaths]  # at least one


def find_group(text: str) -> RunGroup:
    """Returns the experiment in the folder `text`, or those with this prefix or pattern.

    "logs/a" is that folder if it exists, otherwise logs/a_1, logs/a_2 and so on. "logs/a_*" is
    every match.

    Raises:
      ConfigError: If there is no such experiment.
    """
    path = pathlib.Path(text)
    if path.is_dir():
        return RunGroup(printable(path.name or text), [existing_experiment(path)])
    has_pattern = any(sign in path.name for sign in "*?[")
    pattern = path.name if has_pattern else f"{path.name}*"
    folders = sorted(folder for folder in path.parent.glob(pattern) if is_experiment(folder))
    if not folders:
        existing_experiment(path)  # raises, with a suggestion
    return RunGroup(printable(path.name), [ExperimentPaths(folder) for folder in folders])
