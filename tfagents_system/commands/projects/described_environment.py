"""Provides the params and config of an environment that a command names by id or by files."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

from tfagents_system.commands.bindings import algorithm_in, bindings_of
from tfagents_system.commands.projects.environment_ids import find_environment
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.environment_trial import try_environment
from tfagents_system.commands.projects.files import project_files, write_project
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.files import write_json_atomically


@contextlib.contextmanager
def described_params(
    env: str | None,
    params: pathlib.Path | None,
    config: pathlib.Path | None,
    set_: Sequence[str] = (),
) -> Iterator[Params]:
    """Yields the TrainParams of `env`, or of the two files, with the hyperparameters `set_`.

    Raises:
      ConfigError: If there is no such environment, or a file is wrong or missing.
    """
    bindings = bindings_of(set_)
    with described_files(env, params, config, algorithm_in(set_)) as (params_file, config_file):
        yield load_params(params_file, load_env_config(config_file), bindings)


@contextlib.contextmanager
def described_files(
    env: str | None,
    params: pathlib.Path | None,
    config: pathlib.Path | None,
    algorithm: str | None = None,
) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """Yields temporary params and config files for `env`, or the given ones.

    The files for `env` have the settings of `algorithm`.

    Raises:
      ConfigError: If there is no such environment, or the arguments name none or two.
    """
    with tempfile.TemporaryDirectory(prefix="sac_") as folder:
        if env is not None and params is None and config is None:
            yield files_for(env, pathlib.Path(folder), EnvironmentOptions(), algorithm)
        elif env is None and params is not None and config is not None:
            yield params, config
        else:
            raise ConfigError("Which environment? Give either --env, or --params and --config.")


def files_for(
    env: str, folder: pathlib.Path, options: EnvironmentOptions, algorithm: str | None = None
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes the params and config files that `sac train --env` would, and returns their paths.

    They can import modules of the current folder, like the files that it would write there.
    """
    environment = try_environment(find_environment(env), options)
    files, _ = project_files(
        environment.slug, folder, environment, options=options, algorithm=algorithm
    )
    write_project(files)
    params, config, _ = files
    place = {"params_dir": os.getcwd(), "params_name": params.name}
    write_json_atomically(folder / "provenance.json", place)
    return params.rename(folder / "params.py"), config
