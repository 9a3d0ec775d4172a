"""Finds the groups of experiments, differing only in the seed, that a command line names."""

import pathlib
import re
import sys
from typing import NamedTuple

from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment, is_experiment

# Names of experiments that --force_new has renamed, and of a sweep's trials, with a part of each.
_OTHERS = {"_until_": r".*_until_\d{8}_\d{6}", "_trial_": r".*_trial_\d+_seed_\d+"}


class RunGroup(NamedTuple):
    """A group of experiments: the seeds of one setting."""

    name: str  # for display
    experiments: list[ExperimentPaths]  # at least one


def find_group(text: str) -> RunGroup:
    """Returns the experiment in the folder `text`, or those with this prefix or pattern.

    "logs/a" is that folder if it exists, otherwise logs/a_1, logs/a_2 and so on, as "logs/a_" is.
    Prints what it leaves out: experiments that --force_new has renamed, and trials of a sweep. To
    include them, `text` must name them: "logs/a_trial_3", "logs/a_*_until_*".

    Raises:
      ConfigError: If there is no such experiment, or the pattern is wrong.
    """
    path = pathlib.Path(text)
    if path.is_dir():
        return RunGroup(printable(path.name or text), [existing_experiment(path)])
    has_pattern = any(sign in path.name for sign in "*?[")
    pattern = path.name if has_pattern else f"{path.name.removesuffix('_')}_*"
    try:
        found = sorted(folder for folder in path.parent.glob(pattern) if is_experiment(folder))
    except ValueError as error:
        raise ConfigError(f"{text}: not a pattern ({error}). Give one such as 'a_*'.") from error
    others = [folder for folder in found if _is_other(folder.name, pattern)]
    folders = [folder for folder in found if folder not in others]
    if others and not folders:
        raise ConfigError(
            f"{text}: there are only trials of sweeps, or experiments that --force_new has "
            f"renamed. Name them in full, as {others[0]}."
        )
    if others:
        names = ", ".join(folder.name for folder in others)
        print(printable(f"{text}: left out {names}"), file=sys.stderr)
    if not folders:
        existing_experiment(path)  # raises, and suggests a name
    return RunGroup(printable(path.name), [ExperimentPaths(folder) for folder in folders])


def _is_other(name: str, pattern: str) -> bool:
    """Returns whether an experiment is not a seed of a group, and `pattern` does not name it."""
    return any(part not in pattern and re.fullmatch(form, name) for part, form in _OTHERS.items())
