"""Trains an environment or what a variables file describes. The same command resumes.

Example: sac train --env HalfCheetahBulletEnv-v0 --seed 1 2 3 --set train_batch_size=512
Example: sac train --env metaworld:Meta-World/MT1 --env_kwargs env_name=reach-v3 --horizon 200
    --wrap gymnasium.wrappers.FrameStackObservation:4 --workers 4

`sac train VARIABLES.sh` is `run_script.sh VARIABLES.sh` from any folder: paths are relative to it,
and the experiment is in its `logs/`. With --env, it writes params, config and variables files here,
for you to edit next. Without either, it uses the SAC_* variables of the shell.
"""

import ast
import os
import pathlib
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.bindings import bindings_of, with_bindings
from tfagents_system.commands.earlier_runs import check_is_same
from tfagents_system.commands.environment_ids import (
    EnvironmentId,
    find_environment,
    slug_of,
)
from tfagents_system.commands.environment_options import EnvironmentOptions, sources_of
from tfagents_system.commands.environment_trial import check_workers, try_environment
from tfagents_system.commands.learned_data import settings_of_data
from tfagents_system.commands.new import project_files, project_paths, write_project
from tfagents_system.commands.templates import written_for, written_with
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.settings.gin_bindings import parse_assignment
from tfagents_system.core.settings.variables import INITIALIZE_FROM, Settings
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.kernels.build import build_if_missing
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
    horizon: Annotated[int | None, AtLeast(1)] = None,
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
    extend: int | None = None,
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
    name = run_id if name is None else name
    if algo is not None:
        set_ = (f"algorithm={algo}", *set_)
    set_ = (*settings_of_data(offline, replay_from, set_, workers), *set_)
    environ = dict(os.environ)
    bindings = bindings_of(set_)  # refused before anything is written
    if shutil.which("supervise", path=environment_of_runs(environ)["PATH"]) is None:
        raise ConfigError(
            "supervise, of the package daemontools, is not on PATH. Install it (Debian, Ubuntu: "
            "apt-get install daemontools); setup.sh of a checkout does so without root."
        )
    sources = sources_of(mlagents, behavior, curriculum, sampler)
    options = EnvironmentOptions.parse(env_kwargs, wrap, horizon, workers, sources)
    if env is not None:
        variables = _project_of(env, name, options, _algorithm_of(set_))
    elif options.flags():
        raise ConfigError(f"{', '.join(options.flags())} needs --env; otherwise, the files of the "
                          "project have it.")  # fmt: skip
    if workers is not None:
        environ["SAC_NUM_COLLECT_WORKERS"] = str(workers)
    if name is not None:
        environ["SAC_EXP_NAME"] = name
    if len(seed) == 1:
        environ["SAC_SEED"] = str(seed[0])
    if variables is not None:
        environ = read_variables(variables, environ)
    elif "SAC_PARAMS" not in environ:
        raise ConfigError("What is to be trained? Give --env or a variables file. See --help.")
    if initialize_from is not None:
        environ[INITIALIZE_FROM] = initialize_from
    environ = environment_of_runs(with_bindings(environ, bindings))
    build_if_missing()
    if len(seed) > 1:
        return _train_seeds(environ, seed, extend, force_new)
    _prepare_folder(environ, extend, force_new)
    os.environ.clear()
    os.environ.update(environ)
    return start()


def _algorithm_of(assignments: Sequence[str]) -> str | None:
    """Returns the algorithm that hyperparameters of the command line name last, if any."""
    bindings = [parse_assignment(text, "--set") for text in assignments]
    names = [binding.value for binding in bindings if binding.name == "algorithm"]
    return names[-1] if names and names[-1] in ALGORITHMS else None


def _project_of(
    env: str,
    name: str | None,
    options: EnvironmentOptions | None = None,
    algorithm: str | None = None,
) -> pathlib.Path:
    """Returns the variables file here for `env`; writes a project if there is none.

    A new one has the settings of `algorithm`.
    """
    options = options or EnvironmentOptions()
    project = name or slug_of(env)
    params, *_, variables = files = project_paths(project, pathlib.Path())
    if variables.is_file() and (written := written_for(variables.read_text(errors="replace"))):
        is_same = env in written or str(find_environment(env)) == written[1]
    elif any(path.exists() for path in files):
        is_same = params.is_file() and _mentions(params, find_environment(env))
    else:
        check_workers(options, os.environ)
        environment = try_environment(find_environment(env), options)
        contents, remarks = project_files(
            project, pathlib.Path(), environment, env, options, algorithm
        )
        write_project(contents)
        print(f"Written, to be edited for the next step: {', '.join(map(str, files))}", flush=True)
        print("".join(f"{remark}\n" for remark in remarks), end="", flush=True)
        return variables
    if missing := [str(path) for path in files if not path.exists()]:
        raise ConfigError(f"Of the project {project}, {', '.join(missing)} is missing. Choose "
                          "another --name.")  # fmt: skip
    if not is_same:
        raise ConfigError(f"{params} is not for {env}. Choose another --name.")
    _check_written_with(options, variables, files)
    return variables


def _check_written_with(
    options: EnvironmentOptions, variables: pathlib.Path, files: Sequence[pathlib.Path]
) -> None:
    """Raises ConfigError if the project was written with another value of an option."""
    written = written_with(variables.read_text(errors="replace"))
    for flag, text in options.flags().items():
        if written.get(flag) != text:
            was = f"{flag} {written[flag]}" if flag in written else f"no {flag}"
            raise ConfigError(
                f"{variables} was written with {was}, and now it is {flag} {text}. Choose another "
                f"--name for a new project; or edit {', '.join(map(str, files))}, and leave out "
                f"{flag}."
            )


def _mentions(params: pathlib.Path, environment: EnvironmentId) -> bool:
    """Returns whether a params file of an earlier version contains the environment's id."""
    try:
        nodes = ast.walk(ast.parse(params.read_bytes()))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return False
    parts = environment.name.split("/") if environment.kind == "dm_control" else []
    return environment.name in texts or bool(parts) and texts.issuperset(parts)


def _prepare_folder(environ: dict[str, str], extend: int | None, force_new: bool) -> None:
    """Applies --extend and --force_new."""
    if extend is None and not force_new:
        return
    paths = ExperimentPaths(Settings.from_environ(environ).exp_dir)
    if extend is not None and force_new:
        raise ConfigError(
            "--extend continues an experiment, --force_new starts a new one: give only one."
        )
    if extend is not None:
        if not paths.finished.exists():
            raise ConfigError(f"--extend: {paths.root} is not finished; without it, it resumes.")
        num_iter = read_json(paths.finished)["num_iter"] + extend
        environ |= with_bindings(environ, [f"TrainParams.num_iter = {num_iter}"])
    elif paths.root.exists():
        _move_away(paths, environ.get(INITIALIZE_FROM))


def _move_away(paths: ExperimentPaths, initialize_from: str | None) -> None:
    """Renames an experiment that is not running; raises ConfigError if its weights are needed."""
    lock = None
    if paths.root.is_dir():
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


def _train_seeds(
    environ: Mapping[str, str], seeds: Sequence[int], extend: int | None, force_new: bool
) -> int:
    """Trains one experiment for each seed, one after another; skips finished ones.

    Raises:
      ConfigError: If a finished one has other settings; then none is trained.
    """
    base = environ["SAC_EXP_NAME"]
    keeps_finished = extend is None and not force_new
    runs = []
    for seed in seeds:
        one = dict(environ) | {"SAC_SEED": str(seed), "SAC_EXP_NAME": f"{base}_seed_{seed}"}
        paths = ExperimentPaths(Settings.from_environ(one).exp_dir)
        if keeps_finished and paths.finished.exists():
            check_is_same(paths, one, may_be_extended=True)
        runs.append((paths, one))
    for paths, one in runs:
        if keeps_finished and paths.finished.exists():
            print(f"{paths.root} is finished.", flush=True)
            continue
        _prepare_folder(one, extend, force_new)
        if code := run_apart(one):
            return code
    return 0
