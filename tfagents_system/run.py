"""Evaluates a trained policy: greedy episodes, a table, a CSV and a video of each.

Example: python tfagents_system/run.py --exp_dir logs/pendulum
Example: sac eval logs/pendulum
Reads config.json, params.py and policies/ in the experiment's folder, also during training. Writes
videos/<checkpoint>/episode_<k>.mp4 and episodes.csv there, and with --beside videos/side_by_side/.
Its first episode replaces what an earlier evaluation of this checkpoint left there.
The bar at the bottom of a video shows the env steps up to the horizon. Needs no replay server, and
a display only for --view.
"""

import contextlib
import io
import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated

from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.program import run_program
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.environments.headless import draw_unseen
from tfagents_system.evaluation.saved_experiment import (
    find_checkpoint,
    load_saved_params,
    naming_missing_packages,
    prepare_tensorflow,
)
from tfagents_system.films.window import Window


def evaluate(
    exp_dir: str,
    params: str | None = None,
    config: str | None = None,
    num_episodes: Annotated[int, AtLeast(1)] = 5,
    checkpoint: str | None = None,
    seed: Annotated[int, AtLeast(0)] = 0,
    video: bool = True,
    camera: str | None = None,
    beside: tuple[str, ...] = (),
    view: bool = False,
    *,
    stop: object,
) -> int:
    """Evaluates a policy; returns the exit code.

    Args:
      exp_dir: Folder of the experiment.
      params: Params file. Default: params.py in exp_dir.
      config: JSON config. Default: config.json in exp_dir.
      num_episodes: Number of episodes.
      checkpoint: Such as policy_checkpoint_0000500000, or best for the one with the best evaluation
        in training. Default: the newest.
      seed: The same seed gives the same episodes.
      video: Film the episodes.
      camera: Name or id of a MuJoCo camera; for PyBullet, --camera=YAW,PITCH,DISTANCE in degrees
        and meters. Default: the environment's.
      beside: Other checkpoints to evaluate, and to film next to that of --checkpoint.
      view: Show the episodes in a window, in real time; closing it ends the evaluation.
      stop: Ends the evaluation when true.

    Raises:
      ConfigError: If an argument, or a file that it names, is wrong.
    """
    paths = existing_experiment(pathlib.Path(exp_dir))
    checkpoints = _find_checkpoints(paths, checkpoint, beside)
    if beside and not video:
        raise ConfigError("--beside makes films, and --novideo none: leave one of them out.")
    env_config = load_env_config(pathlib.Path(config) if config else paths.config)
    prepare_tensorflow()
    shown: contextlib.AbstractContextManager[Window | None] = contextlib.nullcontext()
    if view:
        shown = Window(paths.root.resolve().name)
    with shown as window:
        if window is not None:
            draw_unseen()  # another program shows the window
        with contextlib.redirect_stderr(io.StringIO()):  # gym advertises its successor
            # Imported here, because TensorFlow takes seconds, and wrong input is reported before.
            from tfagents_system.collection.info_numbers import InfoNumbers
            from tfagents_system.environments.closing import closed_at_end
            from tfagents_system.environments.remarks import learned_state
            from tfagents_system.evaluation import evaluator, results, side_by_side, summary
            from tfagents_system.terminal.lines import Terminal
        train_params = load_saved_params(paths, params, env_config)
        terminal = Terminal()
        policies = evaluator.SavedPolicies(train_params, checkpoints)
        evaluated: list[tuple[str, Sequence[summary.EvaluatedEpisode]]] = []
        for policy_checkpoint in checkpoints:
            with naming_missing_packages(paths):
                made = evaluator.make_eval_environment(train_params, seed)
            with closed_at_end(made) as environment:
                if camera is not None:
                    evaluator.choose_camera(environment, camera)
                policy = policies.load(environment, policy_checkpoint)
                folder = paths.videos / policy_checkpoint.name
                table = results.Results(folder, seed, num_episodes)
                if (learned := learned_state(environment)) and not evaluated:
                    terminal.print(f"NOTE: {learned}")
                terminal.print(f"{policy_checkpoint}, seed {seed}")
                try:
                    evaluator.run_episodes(
                        environment, policy, env_config["horizon"], num_episodes,
                        folder if video else None, terminal, lambda: bool(stop), window,
                        InfoNumbers(train_params.log_info), table.keep,
                    )  # fmt: skip
                finally:  # before an error of the simulator, too
                    table.show(terminal)
            table.check_written()
            if not table.are_complete:
                return EXIT_STOPPED
            evaluated.append((policy_checkpoint.name, table.episodes))
    if beside:
        folder = paths.videos / "side_by_side"
        if not side_by_side.film(folder, evaluated, terminal, lambda: bool(stop)):
            return EXIT_STOPPED
    return EXIT_FINISHED


def _find_checkpoints(
    paths: ExperimentPaths, checkpoint: str | None, beside: Sequence[str]
) -> list[pathlib.Path]:
    """Returns the checkpoint of --checkpoint, and the other ones of --beside."""
    found = [find_checkpoint(paths, checkpoint)]
    for name in beside:
        other = find_checkpoint(paths, name, "--beside")
        if other.name in [path.name for path in found]:
            raise ConfigError(f"--beside {name} is {other.name}, which is filmed already.")
        found.append(other)
    return found


if __name__ == "__main__":
    run_program(evaluate, sys.argv)
