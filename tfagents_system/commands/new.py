"""Writes the params, config and variables files of a new project that can train at once.

Example: sac new walker --from pybullet:Walker2DBulletEnv-v0
Example: sac new reach --from metaworld:Meta-World/MT1 --env_kwargs env_name=reach-v3 --horizon 200

`--from own` writes a small simulator, for you to replace with your own. `--from mlagents:FILE`
converts a trainer configuration of ML-Agents: the settings of one behavior, lessons and samplers.
"""

import os
import pathlib
from collections.abc import Iterable
from typing import Annotated

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.projects.environment_ids import find_environment
from tfagents_system.commands.projects.environment_options import EnvironmentOptions, sources_of
from tfagents_system.commands.projects.environment_trial import check_workers, try_environment
from tfagents_system.commands.projects.files import project_files, project_paths, write_project
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.settings.hyperparameters import MOST_COUNT

OWN = "own"
MLAGENTS = "mlagents:"
# For `--from KIND`: a small task, which the user replaces in the params file.
EXAMPLES = {
    "gymnasium": "Pendulum-v1",
    "gym": "Pendulum-v1",
    "pybullet": "InvertedPendulumBulletEnv-v0",
    "dm_control": "cartpole/swingup",
    "partial": "pendulum-p",
}


def new(
    name: str,
    /,
    from_: str = OWN,
    env_kwargs: tuple[str, ...] = (),
    wrap: tuple[str, ...] = (),
    horizon: Annotated[int | None, AtLeast(1, MOST_COUNT)] = None,
    workers: Annotated[int | None, AtLeast(1)] = None,
    mlagents: pathlib.Path | None = None,
    behavior: str | None = None,
    curriculum: pathlib.Path | None = None,
    sampler: pathlib.Path | None = None,
    algo: Annotated[str | None, OneOf(ALGORITHMS)] = None,
) -> None:
    """Writes NAME_params.py, NAME_config.json and NAME_variables.sh here, unless one exists.

    Args:
      name: Name of the project and its experiment.
      from_: own, a kind of environment (gymnasium, gym, pybullet, dm_control, partial), or an
        environment such as Pendulum-v1, dm_control:cheetah/run, partial:pendulum-p or unity:BUILD,
        with the path of a Unity build; or mlagents:FILE, as --mlagents FILE without an environment.
      env_kwargs: Arguments of the environment's constructor, such as render_mode=rgb_array; of
        dm_control, of the task; of Unity, of `unity_adapter.load`, such as behavior=Ball.
      wrap: Wrappers of gymnasium, or of the environment's library, the innermost first, such as
        gymnasium.wrappers.FrameStackObservation:4 or my_wrappers:Shaped:scale=2.
      horizon: Env steps of an episode, after which it is cut. Default: the environment's limit.
      workers: Number of workers. Default: as many as the CPUs allow.
      mlagents: A trainer configuration of ML-Agents, for the settings.
      behavior: Of ML-Agents' file: the behavior, if there are several.
      curriculum: Of ML-Agents up to 0.16: a file of lessons, or a folder of such files.
      sampler: Of ML-Agents up to 0.16: a file of samplers.
      algo: The algorithm whose settings the files have.

    Raises:
      ConfigError: If a file exists already, the name is not valid, there is no such environment,
        or an option is wrong.
    """
    if from_.startswith(MLAGENTS):
        if mlagents is not None:
            raise ConfigError(f"Give either --from {MLAGENTS}FILE or --mlagents FILE.")
        mlagents, from_ = pathlib.Path(from_.removeprefix(MLAGENTS)), OWN
    if algo is not None and mlagents is not None:
        raise ConfigError("--algo: the settings are those of ML-Agents' file, which is of SAC.")
    sources = sources_of(mlagents, behavior, curriculum, sampler)
    options = EnvironmentOptions.parse(env_kwargs, wrap, horizon, workers, sources)
    if from_ == "unity":
        raise ConfigError("--from unity needs the path of a build: --from unity:BUILD")
    if from_ == OWN:
        environment = None
        if env_kwargs or wrap:
            raise ConfigError("--env_kwargs and --wrap need --from, with an environment.")
    else:
        environment = find_environment(f"{from_}:{EXAMPLES[from_]}" if from_ in EXAMPLES else from_)
    asked_for = from_ if ":" in from_ else None
    _check_are_new(project_paths(name, pathlib.Path()))
    check_workers(options, os.environ)
    if environment:
        try:
            environment = try_environment(environment, options)
        except ConfigError:
            if options.flags():
                raise  # without options, the user can fix it in the params file
    files, remarks = project_files(name, pathlib.Path(), environment, asked_for, options, algo)
    write_project(files)
    print("\n".join([*map(str, files), *remarks]))
    variables = next(path for path in files if path.suffix == ".sh")
    print(f"Edit them, then: sac train {variables}")


def _check_are_new(paths: Iterable[pathlib.Path]) -> None:
    for path in paths:
        if path.exists():
            raise ConfigError(f"{path} already exists. Choose another name, or move it away.")
