"""Checks an environment before it is trained.

Example: sac check --env HalfCheetahBulletEnv-v0 --horizon 500
Example: sac check training_variables_pendulum.sh

Makes the environments as a worker does, runs random episodes and greedy ones of the untrained
policy, and prints in one table what is right and what is not. Then trains on synthetic data for
seconds, and predicts the run: time, bottleneck, useful number of workers, memory. The exit code is
78 if something would make training wrong.
"""

import contextlib
import itertools
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Annotated, Any

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.bindings import (
    algorithm_in,
    bindings_of,
    with_algorithm,
    with_bindings,
)
from tfagents_system.commands.checks.rows import Row, busy_rows, explained, table
from tfagents_system.commands.projects.described_environment import files_for
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.processes import leaving_none_behind
from tfagents_system.core.programs.callbacks import Callbacks
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.programs.params_loader import curriculum_of, load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.hyperparameters import MOST_COUNT
from tfagents_system.core.settings.minibatches import trains_offline
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.variables import ENV_TIMEOUT_SECS, GIN_BINDINGS, Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.environments.headless import draw_unseen
from tfagents_system.kernels.build import build_if_missing
from tfagents_system.launch.checks.params_check import check_gin_bindings
from tfagents_system.launch.local.prepare import check_files
from tfagents_system.launch.local.variables import read_variables
from tfagents_system.terminal.progress import progress_bar


def check(
    variables: pathlib.Path | None = None,
    /,
    env: str | None = None,
    env_kwargs: tuple[str, ...] = (),
    wrap: tuple[str, ...] = (),
    horizon: Annotated[int | None, AtLeast(1, MOST_COUNT)] = None,
    params: pathlib.Path | None = None,
    config: pathlib.Path | None = None,
    algo: Annotated[str | None, OneOf(ALGORITHMS)] = None,
    set_: tuple[str, ...] = (),
    num_episodes: Annotated[int, AtLeast(1)] = 3,
    predict: bool = True,
) -> int:
    """Prints the table; returns 0 if everything is right, 78 if not.

    Args:
      variables: Variables file; without one, the SAC_* variables of the shell are used.
      env: An environment in place of files, such as Pendulum-v1, HalfCheetahBulletEnv-v0,
        dm_control:cheetah/run or partial:pendulum-p.
      env_kwargs: With --env: arguments of its constructor, such as render_mode=rgb_array.
      wrap: With --env: wrappers, such as gymnasium.wrappers.FrameStackObservation:4; as in
        `sac train`.
      horizon: With --env: env steps of an episode. Default: the environment's limit.
      params: Params file, in place of the variables file's.
      config: JSON config, in place of the variables file's.
      algo: The same as --set algorithm=NAME; with --env, with its settings, as in `sac train`.
      set_: Hyperparameters, such as train_batch_size=512.
      num_episodes: Episodes of each policy; fewer if they take more than 20 s.
      predict: Also predict the run: takes half a minute more, Linux only.

    Raises:
      ConfigError: If a file is missing or invalid, or there is no such environment.
    """
    set_ = with_algorithm(algo, set_)
    build_if_missing()  # so that the prediction uses what training will use
    with leaving_none_behind(), tempfile.TemporaryDirectory(prefix="sac_check_") as folder:
        if env is not None:
            if any(file is not None for file in (variables, params, config)):
                raise ConfigError("Give either --env or files.")
            options = EnvironmentOptions.parse(env_kwargs, wrap, horizon)
            params, config = files_for(env, pathlib.Path(folder), options, algorithm_in(set_))
        elif env_kwargs or wrap or horizon:
            raise ConfigError("--env_kwargs, --wrap and --horizon need --env; otherwise, the files "
                              "of the project have them.")  # fmt: skip
        environ = _environ_of(variables, params, config)
        return _check(with_bindings(environ, bindings_of(set_)), num_episodes, predict)


def _check(environ: Mapping[str, str], num_episodes: int, predict: bool) -> int:
    load, *_ = os.getloadavg()  # over the last minute, before this check
    draw_unseen()
    settings = Settings.from_environ(environ)
    check_gin_bindings(settings.gin_bindings, GIN_BINDINGS)
    check_files(settings.config, settings.params)
    env_config = load_env_config(settings.config)
    # Imports TensorFlow, so it comes after all checks that are fast.
    from tfagents_system.commands.checks.environment import STEPS, EnvironmentCheck

    train_params = load_params(settings.params, env_config, settings.gin_bindings)
    curriculum = curriculum_of(train_params, env_config, settings.config)
    looked = EnvironmentCheck(
        train_params, env_config["horizon"], curriculum, num_episodes, settings.deterministic
    )
    longest = settings.env_timeout_secs or ENV_TIMEOUT_SECS
    watching = GUEST.watching(longest)
    with watching, contextlib.closing(looked), progress_bar(*STEPS) as begin:
        looked.run(begin)
    notes = train_params.check(str(settings.params))
    rows = [*looked.rows, *_callback_rows(train_params)]
    if looked.made is not None:
        rows += _demonstration_rows(train_params, settings.params, looked.made)
    notes += curriculum.unreached(train_params.num_iter)
    rows += [*(Row("settings", "note", note) for note in notes)]
    if trains_offline(train_params):
        text = "demonstration_share is 1: nothing is collected, and the run is not predicted"
        rows.append(Row("offline", "note", text))
        predict = False
    busy = busy_rows(load, os.cpu_count() or 1)
    rows += busy
    print(table(rows), flush=True)
    if predict and looked.made is not None:
        from tfagents_system.commands.checks import forecast

        try:
            with progress_bar("training on made-up data"):
                forecasted = forecast.make_forecast(
                    settings, environ, train_params, looked.made, looked.measured
                )
            predicted = forecast.rows_of(forecasted, looked.measured)
        except ConfigError as error:
            predicted = [forecast.failed_row(error)]
        beside = ", measured beside other programs" if busy else ""
        print(f"\nThe run on this machine{beside}:\n{table(predicted)}")
        rows = [*rows, *predicted]
    wrong = [row.what for row in rows if row.verdict == "WRONG"]
    if wrong:
        print(f"\nWRONG: {', '.join(wrong)}. Fix that before training.")
    return EXIT_CONFIG if wrong else 0


def _callback_rows(params: Params) -> list[Row]:
    """Makes the callbacks as the learner does."""
    try:
        callbacks = Callbacks(params.callbacks, "learner", ExperimentPaths(pathlib.Path()))
    except Exception as error:
        return [Row("callbacks", "WRONG", explained(error), "No program could start.")]
    return [Row("callbacks", "ok", ", ".join(callbacks.names))] if callbacks.names else []


def _demonstration_rows(params: Params, file: pathlib.Path, made: Any) -> list[Row]:
    """Reads the demonstrations of a params file, and compares them with the environment."""
    from tfagents_system.learning.held_demonstrations import (
        check_fit,
        check_has_rewards,
        demonstration_paths,
        held_rows,
    )

    try:
        paths = demonstration_paths(params, file)
        episodes = list(itertools.chain(*map(read_demonstrations, paths)))
        check_fit(episodes, made, params.env_config["horizon"])
        check_has_rewards(episodes, params, made)
        if episodes:
            held_rows(episodes, made, params)
    except ConfigError as error:
        return [Row("demonstrations", "WRONG", explained(error), "No run could start.")]
    num_steps = sum(episode.length for episode in episodes)
    value = f"{len(episodes)} episodes, {num_steps:,} env steps"
    return [Row("demonstrations", "ok", value)] if episodes else []


def _environ_of(
    variables: pathlib.Path | None, params: pathlib.Path | None, config: pathlib.Path | None
) -> dict[str, str]:
    """Returns `environ` with the variables file's variables, and with other files if given."""
    environ = {"SAC_EXP_NAME": "check"} | dict(os.environ)
    if variables is not None:
        environ = read_variables(variables, environ)
    given = {"SAC_PARAMS": params, "SAC_CONFIG": config}
    environ |= {name: str(path) for name, path in given.items() if path is not None}
    if not environ.get("SAC_PARAMS") or not environ.get("SAC_CONFIG"):
        raise ConfigError("What is to be checked? Give --env or a variables file.")
    return environ
