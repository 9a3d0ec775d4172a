"""Writes the params, config and variables files of a new project that can train at once.

Example: sac new walker --from pybullet:Walker2DBulletEnv-v0

`--from own` writes a small simulator, for you to replace with your own.
"""

import pathlib
import re

from tfagents_system.commands import templates
from tfagents_system.commands.environment_ids import KINDS, EnvironmentId, find_environment
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import write_text_atomically

OWN = "own"
# For `--from KIND`: a small task, which the user replaces in the params file.
EXAMPLES = {
    "gymnasium": "Pendulum-v1",
    "gym": "Pendulum-v1",
    "pybullet": "InvertedPendulumBulletEnv-v0",
    "dm_control": "cartpole/swingup",
    "partial": "pendulum-p",
}


def new(name: str, /, from_: str = OWN) -> None:
    """Writes NAME_params.py, NAME_config.json and NAME_variables.sh here, unless one exists.

    Args:
      name: Name of the project and its experiment.
      from_: own, a kind of environment (gymnasium, gym, pybullet, dm_control, partial), or an
        environment such as Pendulum-v1, dm_control:cheetah/run or partial:pendulum-p.

    Raises:
      ConfigError: If a file exists already, the name is not valid, or there is no such
        environment.
    """
    if from_ == OWN:
        environment = None
    else:
        environment = find_environment(f"{from_}:{EXAMPLES[from_]}" if from_ in KINDS else from_)
    files = project_files(name, pathlib.Path(), environment, from_ if ":" in from_ else None)
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} is there already. Choose another name, or move it away.")
    write_project(files)
    print("\n".join(str(path) for path in files))
    variables = next(path for path in files if path.suffix == ".sh")
    print(f"Edit them, then: sac train {variables}")


def project_files(
    name: str,
    folder: pathlib.Path,
    environment: EnvironmentId | None,
    asked_for: str | None = None,
) -> dict[pathlib.Path, str]:
    """Returns the text of each file of a project.

    Args:
      name: Name of the project.
      folder: Folder of its files.
      environment: None for a simulator that the user replaces.
      asked_for: The user's name for the environment.

    Raises:
      ConfigError: If `name` is not valid for files and an experiment.
    """
    params, config, variables = project_paths(name, folder)
    title = f"{environment.kind}: {environment.name}." if environment else "A simulator of my own."
    return {
        params: templates.params_text(title, name, environment),
        config: templates.config_text(environment),
        variables: templates.variables_text(name, environment, asked_for),
    }


def project_paths(name: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the paths of a project's params, config and variables files.

    Raises:
      ConfigError: If `name` is not valid for files and an experiment.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ConfigError(
            f"{name!r} cannot be the name of a project; allowed are letters, digits and _, "
            "with a letter first."
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
