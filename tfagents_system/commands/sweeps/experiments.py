"""The experiments of a sweep: each trial of a variables file with each seed."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from tfagents_system.commands.bindings import bindings_of, with_bindings
from tfagents_system.commands.earlier_runs import check_is_same
from tfagents_system.commands.sweeps.trials import Trial
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import GIN_BINDINGS, Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch import start
from tfagents_system.launch.checks.params_check import check_gin_bindings
from tfagents_system.launch.local.prepare import check_files
from tfagents_system.launch.local.variables import read_variables


@dataclasses.dataclass(frozen=True)
class Task:
    """A variables file, whose settings a sweep varies."""

    name: str  # of the sweep; its experiments' names begin with it
    environ: Mapping[str, str]  # SAC_* variables of all trials
    placement: str
    seeds: Sequence[int]
    files: Mapping[pathlib.Path, bytes]  # params and config, as they are when the sweep starts

    @classmethod
    def read(
        cls,
        variables: pathlib.Path,
        name: str | None,
        bindings: Sequence[str],
        seeds: Sequence[int],
    ) -> "Task":
        """Returns the task of a variables file.

        Args:
          variables: The file.
          name: Name of the sweep; None: the name of the file's experiment.
          bindings: Gin bindings of all trials.
          seeds: Seeds of each trial.

        Raises:
          ConfigError: If the file is wrong, or one that it names, so that no trial could start.
        """
        named = {} if name is None else {"SAC_EXP_NAME": name}
        read = read_variables(variables, dict(os.environ) | named) | named
        environ = with_bindings(start.environment_of_runs(read), bindings)
        settings = Settings.from_environ(environ)
        check_gin_bindings(settings.gin_bindings, GIN_BINDINGS)
        check_files(settings.config, settings.params)
        environ.pop("SLURM_ARRAY_TASK_ID", None)  # the name has the number of an array's task
        files = {file: file.read_bytes() for file in (settings.params, settings.config)}
        return cls(settings.exp_dir.name, environ, settings.placement, seeds, files)

    @property
    def folder(self) -> pathlib.Path:
        """Folder of the sweep's logs and results."""
        return pathlib.Path("logs") / f"{self.name}_sweep"

    def check_files(self) -> None:
        """Raises ConfigError if a file has changed since the sweep started."""
        for file, content in self.files.items():
            if not file.is_file() or file.read_bytes() != content:
                raise ConfigError(
                    f"{file} has changed since the sweep {self.name} started, so further trials "
                    "would not be comparable. Undo the change and give the same command, or sweep "
                    "the new file with another --name."
                )

    def experiments_of(self, trial: Trial) -> list["Experiment"]:
        """Returns the experiments of a trial."""
        return [Experiment(self, trial, seed) for seed in self.seeds]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A trial with one seed."""

    task: Task
    trial: Trial
    seed: int

    @property
    def paths(self) -> ExperimentPaths:
        """Its folder."""
        name = f"{self.task.name}_trial_{self.trial.number}_seed_{self.seed}"
        return ExperimentPaths(pathlib.Path("logs") / name)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.paths.root.name

    @property
    def log(self) -> pathlib.Path:
        """File of the output of its starts."""
        return self.task.folder / f"{self.name}.log"

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which it is trained."""
        named = {"SAC_EXP_NAME": self.name, "SAC_SEED": str(self.seed)}
        return with_bindings({**self.task.environ, **named}, bindings_of(self.trial.assignments))

    def check_earlier(self) -> None:
        """Raises ConfigError if an experiment of its name was trained with other settings."""
        if self.paths.root.exists():
            check_is_same(self.paths, self.environ)
