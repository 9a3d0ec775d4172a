"""Finds the policies in an experiment's folder."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import read_provenance

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_NUM_INTRAOP_THREADS": "1",  # as in a worker, so that sums have the same order everywhere
    "TF_NUM_INTEROP_THREADS": "1",
    "SDL_NO_SIGNAL_HANDLERS": "1",
    "SDL_AUDIODRIVER": "dummy",  # pygame complains without a sound card
}
BEST = "best"  # names the policy with the best evaluation


def prepare_tensorflow() -> None:
    """Sets TensorFlow's variables for policies, unless the user did; call it before its import."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def find_checkpoint(
    paths: ExperimentPaths, name: str | None, flag: str = "--checkpoint"
) -> pathlib.Path:
    """Returns the policy checkpoint `name`, the newest one if None, or the best one if "best".

    `flag` names the source of the name, for the message.

    Raises:
      ConfigError: If the experiment has no such checkpoint.
    """
    if name == BEST:
        if best := best_policy(paths):
            return best.folder
        raise ConfigError(
            f"{paths.policies} has no best policy yet ({flag} best): it is kept when all "
            "episodes of an evaluation are there, every eval_period_itrs iterations and at the end."
        )
    checkpoints = {path.name: path for path in paths.policy_checkpoints()}
    if not checkpoints:
        raise ConfigError(
            f"{paths.policies} has no checkpoint yet: training writes one every "
            "checkpoint_period_itrs iterations and at its end."
        )
    *_, newest = checkpoints
    try:
        return checkpoints[newest if name is None else name]
    except KeyError:
        raise ConfigError(
            f"{paths.policies} has no checkpoint {name!r} ({flag}). "
            f"There are: {_shortened(list(checkpoints))}."
        ) from None


def _shortened(names: Sequence[str], most: int = 8) -> str:
    if len(names) <= most:
        return ", ".join(names)
    half = most // 2
    return f"{', '.join(names[:half])}, ..., {', '.join(names[-half:])} ({len(names)} in all)"


def load_saved_params(
    paths: ExperimentPaths, params: str | None, env_config: dict[str, Any]
) -> Any:
    """Loads the params file `params`, or the one that the run saved.

    The run's gin bindings apply in both cases.

    Raises:
      ConfigError: If the file or provenance.json is wrong.
    """
    provenance = read_provenance(paths.provenance, ("gin_bindings",)) or {"gin_bindings": []}
    file = paths.params if params is None else pathlib.Path(params)
    return load_params(file, env_config, provenance["gin_bindings"])
