"""Evaluates a trained policy: greedy episodes, a table, a CSV and a video of each.

Usage: python tfagents_system/run.py --exp_dir logs/pendulum
Reads config.json, params.py and policies/ in the experiment's folder, also while it is training.
Writes videos/<checkpoint>/episode_<k>.mp4 and episodes.csv there; the bar along the bottom of a
video counts the env steps up to the horizon. Needs neither a display nor a replay server.
"""

import contextlib
import io
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from tfagents_system.core.env_config import load_env_config
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.params_loader import load_params
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.program import run_program
from tfagents_system.core.provenance import read_provenance

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_NUM_INTRAOP_THREADS": "1",  # as in a worker: sums in one order, the same everywhere
    "TF_NUM_INTEROP_THREADS": "1",
    "SDL_AUDIODRIVER": "dummy",  # pygame complains where there is no sound card
}


def parse_flags(argv: Sequence[str]) -> dict[str, Any]:
    """Returns the arguments of `evaluate`; `--help` prints them and exits with 0.

    Raises:
      ConfigError: If a flag is unknown, missing or has a value that is not allowed.
    """
    values = flags.FlagValues()
    own = {"flag_values": values}
    flags.DEFINE_string("exp_dir", None, "Folder of the experiment (required).", **own)
    flags.DEFINE_string("params", None, "Params file. Default: params.py in exp_dir.", **own)
    flags.DEFINE_string("config", None, "JSON config. Default: config.json in exp_dir.", **own)
    flags.DEFINE_integer("num_episodes", 5, "Episodes to run.", lower_bound=1, **own)
    flags.DEFINE_string(
        "checkpoint", None, "Such as policy_checkpoint_0000500000. Default: the newest.", **own
    )
    flags.DEFINE_integer("seed", 0, "The same seed gives the same episodes.", lower_bound=0, **own)
    flags.DEFINE_boolean("video", True, "Film the episodes.", **own)
    if {"--help", "-h", "-help"} & set(argv[1:]):
        print(__doc__ + values.get_help(include_special_flags=False))
        sys.exit(0)
    try:
        (_, *rest) = values(list(argv))
    except flags.Error as error:
        raise ConfigError(f"{error}. See --help.") from error
    if rest:
        raise ConfigError(f"{rest[0]!r} is not a flag. See --help.")
    if values.exp_dir is None:
        raise ConfigError("--exp_dir is missing, such as --exp_dir logs/pendulum. See --help.")
    return values.flag_values_dict()


def find_checkpoint(paths: ExperimentPaths, name: str | None) -> pathlib.Path:
    """Returns the policy checkpoint `name`, or the newest one if None.

    Raises:
      ConfigError: If there is no such experiment, or it has no such checkpoint.
    """
    if not os.path.isdir(paths.root):  # also for names that no file can have
        raise ConfigError(f"{paths.root}: no such experiment folder (--exp_dir).")
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
            f"{paths.policies} has no checkpoint {name!r} (--checkpoint). "
            f"There are: {_shortened(list(checkpoints))}."
        ) from None


def _shortened(names: Sequence[str], most: int = 8) -> str:
    if len(names) <= most:
        return ", ".join(names)
    half = most // 2
    return f"{', '.join(names[:half])}, ..., {', '.join(names[-half:])} ({len(names)} in all)"


def evaluate(
    exp_dir: str,
    params: str | None,
    config: str | None,
    num_episodes: int,
    checkpoint: str | None,
    seed: int,
    video: bool,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Evaluates as the flags of the same names say; returns the exit code.

    Raises:
      ConfigError: If an argument or a file it names is wrong.
    """
    paths = ExperimentPaths(pathlib.Path(exp_dir))
    policy_checkpoint = find_checkpoint(paths, checkpoint)
    env_config = load_env_config(pathlib.Path(config) if config else paths.config)
    folder = paths.videos / policy_checkpoint.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with contextlib.redirect_stderr(io.StringIO()):  # gym advertises its successor
        # Here and not above: TensorFlow takes seconds, which wrong input need not wait for.
        from tfagents_system.evaluation import evaluator, summary
        from tfagents_system.evaluation.terminal import Terminal
    train_params = _load_train_params(paths, params, env_config)
    terminal = Terminal()
    with evaluator.make_eval_environment(train_params, seed) as environment:
        policy = evaluator.load_greedy_policy(train_params, environment, policy_checkpoint)
        terminal.print(f"{policy_checkpoint}, seed {seed}")
        results = evaluator.run_episodes(
            environment, policy, env_config["horizon"], num_episodes,
            folder if video else None, terminal, should_stop,
        )  # fmt: skip
    is_complete = len(results) == num_episodes
    if not is_complete:
        terminal.print(f"stopped after {len(results)} of {num_episodes} episodes")
    if results:
        for line in summary.summary_lines(results):
            terminal.print(line)
        try:
            summary.write_csv(folder / "episodes.csv", results, seed)
        except OSError as error:
            raise _cannot_write(folder, error) from error
        terminal.print(f"written to {folder}")
    return EXIT_FINISHED if is_complete else EXIT_STOPPED


def _cannot_write(folder: pathlib.Path, error: OSError) -> ConfigError:
    return ConfigError(f"Cannot write the results to {folder}: {error.strerror}.")


def _load_train_params(paths: ExperimentPaths, params: str | None, env_config: dict[str, Any]):
    """Loads `params`, or what the run saved, with the run's gin bindings in either case."""
    provenance = read_provenance(paths.provenance, ("gin_bindings", "params_dir"))
    if provenance is None:
        provenance = {"gin_bindings": [], "params_dir": None}
    if params is not None:
        return load_params(pathlib.Path(params), env_config, provenance["gin_bindings"])
    return load_params(
        paths.params, env_config, provenance["gin_bindings"], provenance["params_dir"]
    )


if __name__ == "__main__":
    run_program(lambda stop: evaluate(**parse_flags(sys.argv), should_stop=lambda: bool(stop)))
