"""Trains an environment or what a variables file describes. The same command resumes.

Example: sac train --env HalfCheetahBulletEnv-v0 --seed 1 2 3 --set train_batch_size=512
Example: sac train --env metaworld:Meta-World/MT1 --env_kwargs env_name=reach-v3 --horizon 200
    --wrap gymnasium.wrappers.FrameStackObservation:4 --workers 4

`sac train VARIABLES.sh` is `run_script.sh VARIABLES.sh` from any folder: paths are relative to it,
and the experiment is in its `logs/`. With --env, it writes params, config and variables files here,
for you to edit next. Without either, it uses the SAC_* variables of the shell.
"""

import json
import os
import pathlib
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.bindings import (
    algorithm_in,
    bindings_of,
    with_algorithm,
    with_bindings,
)
from tfagents_system.commands.earlier_runs import check_is_same
from tfagents_system.commands.learned_data import settings_of_data
from tfagents_system.commands.projects.environment_options import EnvironmentOptions, sources_of
from tfagents_system.commands.projects.training_project import Files, project_of
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.settings.hyperparameters import MOST_COUNT
from tfagents_system.core.settings.variables import INITIALIZE_FROM, Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.kernels.build import build_if_missing
from tfagents_system.launch.clusters.slurm_placement import jobs_in_queue
from tfagents_system.launch.experiment.ending import extended_by, read_finished
from tfagents_system.launch.experiment.initial_weights import InitialWeights
from tfagents_system.launch.experiment.lock import take_lock
from tfagents_system.launch.local.variables import read_variables
from tfagents_system.launch.start import environment_of_runs, run_apart, start


def train(
    variables: pathlib.Path | None = None,
    /,
    env: str | None = None,
    unity: str | None = None,
    env_kwargs: tuple[str, ...] = (),
    wrap: tuple[str, ...] = (),
    horizon: Annotated[int | None, AtLeast(1, MOST_COUNT)] = None,
    workers: Annotated[int | None, AtLeast(1)] = None,
    mlagents: pathlib.Path | None = None,
    behavior: str | None = None,
    curriculum: pathlib.Path | None = None,
    sampler: pathlib.Path | None = None,
    name: str | None = None,
    run_id: str | None = None,
    seed: tuple[int, ...] = (),
    algo: Annotated[str | None, OneOf(ALGORITHMS)] = None,
    set_: tuple[str, ...] = (),
    extend: Annotated[int | None, AtLeast(1)] = None,
    force_new: bool = False,
    initialize_from: str | None = None,
    replay_from: pathlib.Path | None = None,
    offline: tuple[str, ...] = (),
) -> int:
    """Becomes the run; with several seeds, trains one after another and returns the last exit code.

    Args:
      variables: Variables file.
      env: An environment in place of a variables file, such as Pendulum-v1,
        HalfCheetahBulletEnv-v0, dm_control:cheetah/run or partial:pendulum-p.
      unity: Path of a Unity build: the same as --env unity:BUILD.
      env_kwargs: Arguments of the environment's constructor, such as render_mode=rgb_array; of
        dm_control, of the task. As the next seven, for a new project of --env, whose files have
        them from then on.
      wrap: Wrappers of gymnasium, or of the environment's library, the innermost first, such as
        gymnasium.wrappers.FrameStackObservation:4 or my_wrappers:Shaped:scale=2.
      horizon: Env steps of an episode, after which it is cut. Default: the environment's limit.
      workers: Number of workers. Default: as many as the CPUs allow.
      mlagents: A trainer configuration of ML-Agents, for the settings.
      behavior: Of ML-Agents' file or the Unity build: the behavior, if there are several.
      curriculum: Of ML-Agents up to 0.16: a file of lessons, or a folder of such files.
      sampler: Of ML-Agents up to 0.16: a file of samplers.
      name: Name of the experiment. Default: from the variables file or the environment.
      run_id: The same as --name.
      seed: Seed of everything random; several make one experiment each, NAME_seed_1 and so on.
      algo: The same as --set algorithm=NAME. A new project of --env has its settings.
      set_: Hyperparameters, such as train_batch_size=512.
      extend: Continue a finished experiment for this number of iterations.
      force_new: Start again; an experiment of this name is renamed and kept.
      initialize_from: EXP[:CHECKPOINT], such as logs/first or logs/first:best: a new experiment
        starts with these weights, but with its own counters and replay buffer.
      replay_from: An experiment, such as logs/first, from whose replay buffer half of each
        minibatch is drawn: the same as --set demonstrations=logs/first.
      offline: Demonstrations, or experiments, from which all of each minibatch is drawn, without
        workers: the same as --set demonstrations=DATASET demonstration_share=1. Actions that the
        data lack get values that are guesses, so evaluate the policy.

    Raises:
      ConfigError: For wrong input.
    """
    if platform.system() != "Linux":
        raise ConfigError("Training needs Linux: Reverb has no build for this system.")
    if unity is not None:
        if env is not None:
            raise ConfigError("Give either --env or --unity.")
        env = f"unity:{unity}"
        if behavior is not None and mlagents is None:
            env_kwargs, behavior = (*env_kwargs, f"behavior={behavior}"), None
    if variables is not None and env is not None:
        raise ConfigError("Give either a variables file or --env.")
    if extend is not None and force_new:
        raise ConfigError(
            "--extend continues an experiment, --force_new starts a new one: give only one."
        )
    if run_id is not None and name is not None:
        raise ConfigError("Give either --name or --run_id, which is the same.")
    name = run_id if name is None else name
    if algo is not None and mlagents is not None:
        raise ConfigError("--algo: the settings are those of ML-Agents' file, which is of SAC.")
    set_ = with_algorithm(algo, set_)
    set_ = (*settings_of_data(offline, replay_from, set_, workers), *set_)
    bindings = bindings_of(set_)  # refused before anything is written
    if shutil.which("supervise", path=environment_of_runs(os.environ)["PATH"]) is None:
        raise ConfigError(
            "supervise, of the package daemontools, is not on PATH. Install it (Debian, Ubuntu: "
            "apt-get install daemontools); setup.sh of a checkout does so without root."
        )
    sources = sources_of(mlagents, behavior, curriculum, sampler)
    options = EnvironmentOptions.parse(env_kwargs, wrap, horizon, workers, sources)
    seed = tuple(dict.fromkeys(seed))
    flags = {
        "SAC_NUM_COLLECT_WORKERS": workers,
        "SAC_EXP_NAME": name,
        "SAC_SEED": seed[0] if len(seed) == 1 else None,
        INITIALIZE_FROM: initialize_from,
    }
    named = {variable: str(value) for variable, value in flags.items() if value is not None}
    environ = dict(os.environ) | named
    if env is not None:
        check = partial(_check_first_start, environ, seed, extend, force_new)
        variables = project_of(env, name, options, algorithm_in(set_), check)
    elif options.flags():
        raise ConfigError(f"{', '.join(options.flags())} needs --env; otherwise, the files of the "
                          "project have it.")  # fmt: skip
    if variables is not None:
        environ = read_variables(variables, environ) | named  # also over plain assignments there
    elif "SAC_PARAMS" not in environ:
        raise ConfigError("What is to be trained? Give --env or a variables file. See --help.")
    environ = environment_of_runs(with_bindings(environ, bindings))
    build_if_missing()
    if len(seed) > 1:
        return _train_seeds(environ, seed, extend, force_new)
    ((paths, _),) = _runs(environ, seed)
    if extend is not None:
        num_iter = extended_by(extend, [paths])
        environ = with_bindings(environ, bindings_of([f"num_iter={num_iter}"]))
    os.environ.clear()
    os.environ.update(environ)
    return _anew(paths, environ, start) if force_new else start()


def _check_first_start(
    environ: Mapping[str, str],
    seeds: Sequence[int],
    extend: int | None,
    force_new: bool,
    name: str,
    files: Files,
) -> None:
    """Raises ConfigError if a project of these files could not start, before they are written."""
    if extend is not None:
        raise ConfigError(f"--extend continues a finished experiment, but there is no {name} here.")
    params, config, _ = files
    named = {"SAC_EXP_NAME": name, "SAC_PARAMS": str(params), "SAC_CONFIG": str(config)}
    for paths, one in _runs(named | dict(environ), seeds):
        if paths.root.exists() and not force_new:
            if not _has_files(paths, files[params], files[config]):
                raise ConfigError(
                    f"{paths.root} already exists, and was not trained with the files that would "
                    "be written. Choose another --name; or add --force_new, which keeps it under "
                    "another name."
                )
        elif source := Settings.from_environ(one).initialize_from:
            InitialWeights.find(source)


def _has_files(paths: ExperimentPaths, params: str, config: str) -> bool:
    try:
        saved = json.loads(paths.config.read_text())
        return paths.params.read_text() == params and saved == json.loads(config)
    except (OSError, ValueError):
        return False


def _runs(
    environ: Mapping[str, str], seeds: Sequence[int]
) -> list[tuple[ExperimentPaths, dict[str, str]]]:
    """Returns the experiment and the SAC_* variables of each run; several seeds are several."""
    name = Settings.from_environ(environ).exp_name
    runs = []
    for seed in seeds or (None,):
        one = dict(environ)
        if seed is not None:
            one["SAC_SEED"] = str(seed)
        if len(seeds) > 1:
            one["SAC_EXP_NAME"] = f"{name}_seed_{seed}"
        runs.append((ExperimentPaths(Settings.from_environ(one).exp_dir), one))
    return runs


def _train_seeds(
    environ: Mapping[str, str], seeds: Sequence[int], extend: int | None, force_new: bool
) -> int:
    """Trains one experiment for each seed, one after another; skips finished ones.

    Raises:
      ConfigError: If a finished one has other settings, or one is to be extended and is not
        finished; then none is trained.
    """
    num_iter = 0  # iterations from which on a finished experiment is long enough
    runs = _runs(environ, seeds)
    if extend is not None:
        num_iter = extended_by(extend, [paths for paths, _ in runs])
        bindings = bindings_of([f"num_iter={num_iter}"])
        runs = [(paths, with_bindings(one, bindings)) for paths, one in runs]
    elif not force_new:
        for paths, one in runs:
            if paths.finished.exists():
                check_is_same(paths, one, may_be_extended=True)
    for paths, one in runs:
        run = partial(run_apart, one)
        if force_new:
            code = _anew(paths, one, run)
        elif paths.finished.exists() and read_finished(paths)["num_iter"] >= num_iter:
            print(f"{paths.root} is finished.", flush=True)
            continue
        else:
            code = run()
        if code:
            return code
    return 0


def _anew(paths: ExperimentPaths, environ: Mapping[str, str], run: Callable[[], int]) -> int:
    """Renames an experiment, if there is one, and runs; returns the exit code.

    If the run cannot start, as after wrong input, the experiment gets its name back.
    """
    kept = _move_away(paths, environ.get(INITIALIZE_FROM))
    code = EXIT_CONFIG
    try:
        code = run()
    finally:
        if kept is not None and code and not paths.root.exists():
            os.rename(kept, paths.root)
            print(f"Nothing was started, so {kept} is {paths.root} again.", flush=True)
    return code


def _move_away(paths: ExperimentPaths, initialize_from: str | None) -> pathlib.Path | None:
    """Renames an experiment, if there is one; returns its new path.

    Raises:
      ConfigError: If it is running, or its weights are needed.
    """
    if not paths.root.exists():
        return None
    lock = None
    if paths.root.is_dir():
        if shutil.which("squeue") and (jobs := jobs_in_queue(paths)):
            raise ConfigError(
                f"--force_new: {paths.root} is submitted to SLURM. Cancel it first: "
                f"scancel {' '.join(jobs)}"
            )
        try:
            lock = take_lock(paths.lock)  # so that nobody starts it meanwhile
        except ConfigError as error:
            raise ConfigError(f"--force_new: {paths.root} is running. Stop it first.") from error
    if initialize_from:
        source = InitialWeights.find(initialize_from).checkpoint
        if paths.root.resolve() in source.resolve().parents:
            raise ConfigError(f"--force_new would rename {paths.root}, which is to give the "
                              "weights. Choose another --name.")  # fmt: skip
    kept = paths.root.with_name(f"{paths.root.name}_until_{time.strftime('%Y%m%d_%H%M%S')}")
    os.rename(paths.root, kept)
    if lock is not None:
        os.close(lock)
    print(f"The earlier {paths.root} is now {kept}.", flush=True)
    return kept
