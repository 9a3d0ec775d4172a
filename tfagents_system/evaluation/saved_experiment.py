"""Finds the policies in an experiment's folder."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import original_of, read_provenance
from tfagents_system.core.state.running import copied_modules

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

    The run's gin bindings apply in both cases. Where the originals of the user's files are gone, as
    on another machine, the run's copies take their place, and further modules may be in the current
    folder.

    Raises:
      ConfigError: If the file or provenance.json is wrong, or a module is missing here.
    """
    provenance = read_provenance(paths.provenance, ("gin_bindings",)) or {"gin_bindings": []}
    bindings = provenance["gin_bindings"]
    if params is not None:
        return load_params(pathlib.Path(params), env_config, bindings)
    running = None
    if _is_moved(paths):
        running = paths.running
        sys.path.append(os.getcwd())  # last: it may hold modules with the names of others
    with naming_missing_packages(paths):
        return load_params(paths.params, env_config, bindings, running)


@contextlib.contextmanager
def naming_missing_packages(paths: ExperimentPaths) -> Iterator[None]:
    """Reports packages that the experiment's user code cannot import on this machine.

    Raises:
      ConfigError: If a module is missing; the message names the version of the training.
    """
    try:
        yield
    except (ConfigError, UserCodeError) as error:
        missing = error.__cause__
        while isinstance(missing, UserCodeError):
            missing = missing.__cause__
        if not isinstance(missing, ModuleNotFoundError):
            raise
        sentence = str(error)
        if isinstance(error, UserCodeError) and error.place:
            sentence = f"{error.place[0]}:{error.place[1]}: {missing}"
        raise ConfigError(f"{sentence.rstrip('.')}. {_remedy(missing, paths)}") from error


def _is_moved(paths: ExperimentPaths) -> bool:
    """Returns whether the user's files, from which the run was started, are not here."""
    files = [str(original_of(paths.params))]
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # damaged: no copies
        files += [module.file for module in copied_modules(paths)]
    return not all(os.path.exists(file) for file in files)


def _remedy(missing: ModuleNotFoundError, paths: ExperimentPaths) -> str:
    package = (missing.name or "").partition(".")[0].replace("_", "-")
    record = read_json(paths.provenance) if paths.provenance.exists() else {}
    versions = record.get("packages", {})
    pin = f"{package}=={versions[package]}" if package in versions else "its package"
    return (
        f"{paths.root} was trained with it: install {pin} in this Python ({sys.prefix}), or put "
        f"the module into the current folder or into {paths.root}."
    )
