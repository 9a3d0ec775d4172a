"""Packs what an experiment needs to be evaluated elsewhere into one file.

Example: sac pack logs/pendulum

Packs config and params with the run's copies of the user's modules, the newest and the best policy,
and the record of the run; no replay buffer, training state, logs or videos. Installed packages,
such as a simulator, are not in it: provenance.json has their versions.
"""

import contextlib
import os
import pathlib
import shlex
import tarfile

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.core.state.files import temporary_name
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.evaluation.saved_experiment import find_checkpoint


def pack(exp_dir: pathlib.Path, /, output: pathlib.Path | None = None) -> None:
    """Writes the file, and prints how to evaluate it.

    Args:
      exp_dir: Folder of the experiment.
      output: File to write. Default: the experiment's name and .tar.gz, in the current folder.

    Raises:
      ConfigError: If there is no such experiment, it cannot be evaluated, or the file cannot be
        written.
    """
    paths = existing_experiment(exp_dir)
    load_env_config(paths.config)
    if not paths.params.is_file():
        raise ConfigError(f"{paths.root} has no {paths.params.name}, which sac eval needs.")
    name = paths.root.resolve().name
    if output is not None and not output.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError(f"--output is {output}; expected a file with the ending .tar.gz or .tgz.")
    file = pathlib.Path(f"{name}.tar.gz") if output is None else output
    unfinished = temporary_name(file.absolute())
    try:
        with tarfile.open(unfinished, "w:gz") as archive:
            for path in packed_paths(paths):
                archive.add(path, f"{name}/{path.relative_to(paths.root)}")
        os.replace(unfinished, file)
    except OSError as error:
        if error.filename not in (None, str(unfinished), str(file)):  # of the experiment
            raise ConfigError(f"Cannot pack {error.filename}: {error.strerror}.") from error
        raise ConfigError(f"Cannot write {file}: {error.strerror}. Set --output.") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
    print(f"{file}  {format_bytes(file.stat().st_size)}")
    print("On another machine with this project and the packages of the environment:")
    print(f"  tar -xzf {shlex.quote(file.name)} && sac eval {shlex.quote(name)}")


def packed_paths(paths: ExperimentPaths) -> list[pathlib.Path]:
    """Returns the files and folders that are packed.

    Raises:
      ConfigError: If there is no policy yet.
    """
    policies = [paths.policies / "greedy_policy", paths.policies / "collect_policy"]
    record = [paths.config, paths.params, paths.provenance, paths.gin, paths.finished]
    chosen = [*record, paths.running, *policies, find_checkpoint(paths, None), paths.best_policies]
    return [path for path in chosen if path.exists()]
