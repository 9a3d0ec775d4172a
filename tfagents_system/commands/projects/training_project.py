"""Finds the project of an environment in the current folder, or writes a new one."""

import ast
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tfagents_system.commands.projects.environment_ids import (
    EnvironmentId,
    find_environment,
    slug_of,
)
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.environment_trial import check_workers, try_environment
from tfagents_system.commands.projects.files import project_files, project_paths, write_project
from tfagents_system.commands.projects.templates import written_for, written_with
from tfagents_system.core.errors import ConfigError

Files = Mapping[pathlib.Path, str]  # params, config and variables, with their texts


def project_of(
    env: str,
    name: str | None,
    options: EnvironmentOptions | None = None,
    algorithm: str | None = None,
    check: Callable[[str, Files], None] = lambda name, files: None,
) -> pathlib.Path:
    """Returns the variables file here for `env`; writes a project if there is none.

    Args:
      env: An environment, as `sac train --env` takes it.
      name: Name of the project; None for the environment's name.
      options: The user's options for the environment.
      algorithm: The algorithm whose settings a new project gets; None for the default one.
      check: Called with the name and the files of a new project before they are written; raises
        ConfigError if it could not be trained.

    Raises:
      ConfigError: If there is no such environment, or another project has this name.
    """
    options = options or EnvironmentOptions()
    if not (project := name or slug_of(env)):
        find_environment(env)  # raises, and tells what is allowed
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
        check(project, contents)
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
