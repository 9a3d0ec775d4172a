"""Evaluates a trained policy: greedy episodes, a table, a CSV and a video of each.

Example: python tfagents_system/run.py --exp_dir logs/pendulum
Reads config.json, params.py and policies/ in the experiment's folder, also while it is training.
Writes videos/<checkpoint>/episode_<k>.mp4 and episodes.csv there; the bar along the bottom of a
video counts the env steps up to the horizon. Needs neither a display nor a replay server.
"""

import contextlib
import io
import os
import pathlib
import sys
from typing import Annotated

from tfagents_system.core.command_line import AtLeast
from tfagents_system.core.env_config import load_env_config
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.paths import existing_experiment
from tfagents_system.core.program import run_program
from tfagents_system.evaluation.saved_experiment import find_checkpoint, load_saved_params

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # errors only
    "TF_NUM_INTRAOP_THREADS": "1",  # as in a worker: sums in one order, the same everywhere
    "TF_NUM_INTEROP_THREADS": "1",
    "SDL_AUDIODRIVER": "dummy",  # pygame complains where there is no sound card
}


def evaluate(
    exp_dir: str,
    params: str | None = None,
    config: str | None = None,
    num_episodes: Annotated[int, AtLeast(1)] = 5,
    checkpoint: str | None = None,
    seed: Annotated[int, AtLeast(0)] = 0,
    video: bool = True,
    *,
    stop: object,
) -> int:
    """Evaluates a policy; returns the exit code.

    Args:
      exp_dir: Folder of the experiment.
      params: Params file. Default: params.py in exp_dir.
      config: JSON config. Default: config.json in exp_dir.
      num_episodes: Episodes to run.
      checkpoint: Such as policy_checkpoint_0000500000, or best, by its evaluation in training.
        Default: the newest.
      seed: The same seed gives the same episodes.
      video: Film the episodes.
      stop: Ends the evaluation as soon as it is true.

    Raises:
      ConfigError: If an argument or a file it names is wrong.
    """
    paths = existing_experiment(pathlib.Path(exp_dir))
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
    train_params = load_saved_params(paths, params, env_config)
    terminal = Terminal()
    with evaluator.make_eval_environment(train_params, seed) as environment:
        policy = evaluator.load_greedy_policy(train_params, environment, policy_checkpoint)
        terminal.print(f"{policy_checkpoint}, seed {seed}")
        results = evaluator.run_episodes(
            environment, policy, env_config["horizon"], num_episodes,
            folder if video else None, terminal, lambda: bool(stop),
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


if __name__ == "__main__":
    run_program(evaluate, sys.argv)
