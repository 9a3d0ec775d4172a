"""The params, config and variables files of a project: their paths and texts."""

import pathlib
import re

from tfagents_system.commands.mlagents.project import convert_project
from tfagents_system.commands.projects import templates
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.recipes import check_takes_actions
from tfagents_system.commands.projects.unity import described
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import write_text_atomically


def project_files(
    name: str,
    folder: pathlib.Path,
    environment: EnvironmentId | None,
    asked_for: str | None = None,
    options: EnvironmentOptions | None = None,
    algorithm: str | None = None,
) -> tuple[dict[pathlib.Path, str], list[str]]:
    """Returns the text of each file of a project, and remarks for the user.

    Args:
      name: Name of the project.
      folder: Folder of its files.
      environment: None for a simulator that the user replaces.
      asked_for: The user's name for the environment.
      options: The user's options for it.
      algorithm: The algorithm whose settings the files get, unless they come from ML-Agents; None
        is the default one.

    Raises:
      ConfigError: If `name` is not valid for files and an experiment, a file of ML-Agents cannot be
        converted, or the algorithm does not support the environment's kind of actions.
    """
    params, config, variables = project_paths(name, folder)
    options = options or EnvironmentOptions()
    if environment:
        environment = described(environment, options)
        if algorithm is not None:
            check_takes_actions(algorithm, environment)
    if options.mlagents:
        made = convert_project(options.mlagents, name, environment, asked_for, options)
        texts = {params: made.params, config: made.config, variables: made.variables}
        return texts, made.remarks
    title = f"{environment.kind}: {environment.name}." if environment else "A simulator of my own."
    texts = {
        params: templates.params_text(title, name, environment, options, algorithm),
        config: templates.config_text(environment, options),
        variables: templates.variables_text(name, environment, asked_for, options),
    }
    return texts, []


def project_paths(name: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the paths of a project's params, config and variables files.

    Raises:
      ConfigError: If `name` is not valid for files and an experiment.
    """
    if not re.fullmatch(r"[A-Za-z]\w{0,199}", name, re.ASCII):  # as SAC_EXP_NAME
        raise ConfigError(
            f"{name!r} cannot be the name of a project; expected letters, digits and _, "
            "with a letter first, 200 at most."
        )
    ends = ("params.py", "config.json", "variables.sh")
    return [folder / f"{name}_{end}" for end in ends]


def write_project(files: dict[pathlib.Path, str]) -> None:
    """Writes the files.

    Raises:
      ConfigError: If one cannot be written.
    """
    try:
        for path, text in files.items():
            write_text_atomically(path, text)
    except OSError as error:
        raise ConfigError(f"Cannot write {error.filename or path}: {error.strerror}.") from error
