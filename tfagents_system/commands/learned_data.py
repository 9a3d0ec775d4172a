"""The data, besides its own env steps, that the flags of `sac train` let a run learn from."""

import pathlib
from collections.abc import Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_bindings import parse_assignment
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.launch.experiment.offline import SHARE


def settings_of_data(
    offline: Sequence[str],
    replay_from: pathlib.Path | None,
    assignments: Sequence[str],
    workers: int | None,
) -> list[str]:
    """Returns the hyperparameters that --offline or --replay_from stands for, such as `a=1`.

    Args:
      offline: Data sets of --offline; empty without it.
      replay_from: The experiment of --replay_from.
      assignments: Values of --set.
      workers: The number of --workers.

    Raises:
      ConfigError: If the flags contradict each other, or there is no such experiment.
    """
    if offline:
        _check_offline(replay_from, assignments, workers)
        value = offline[0] if len(offline) == 1 else list(offline)
        return [f"demonstrations={value!r}", f"{SHARE}=1.0"]
    if replay_from is not None:
        _check_not_set(assignments, ("demonstrations",), "--replay_from")
        existing_experiment(replay_from)  # a folder of demonstrations has another flag
        return [f"demonstrations={str(replay_from)!r}"]
    return []


def _check_offline(
    replay_from: pathlib.Path | None, assignments: Sequence[str], workers: int | None
) -> None:
    if replay_from is not None:
        raise ConfigError(
            f"--replay_from is {replay_from}, and there is --offline: give only one. --offline "
            "takes an experiment, too, and then trains on its replay buffer alone."
        )
    if workers is not None:
        raise ConfigError(
            f"--workers is {workers}, and --offline trains without workers that collect: leave one "
            "out."
        )
    _check_not_set(assignments, ("demonstrations", SHARE), "--offline")


def _check_not_set(assignments: Sequence[str], names: Sequence[str], flag: str) -> None:
    for binding in (parse_assignment(text, "--set") for text in assignments):
        if binding.name in names:
            raise ConfigError(
                f"--set has {binding.name}, and there is {flag}, which sets it: give only one."
            )
