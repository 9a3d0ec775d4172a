"""Makes the folder of an experiment atomically at its first start; later starts resume it."""

import dataclasses
import json
import os
import pathlib
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.checkout import version
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.installed import all_versions
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.variables import INITIALIZE_FROM, Settings
from tfagents_system.core.state.files import (
    make_folder_durably,
    rename_durably,
    temporary_name,
    write_bytes_atomically,
    write_json_durably,
    write_text_atomically,
)
from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.incarnation import Job
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import original_of, read_provenance
from tfagents_system.core.state.running import begin_run
from tfagents_system.launch.checks.imported_modules import imported_modules
from tfagents_system.launch.experiment.git_state import GitState
from tfagents_system.launch.experiment.initial_weights import InitialWeights, may_name
from tfagents_system.launch.experiment.lock import take_lock


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The part of a run's origin that later starts need; the rest is only for the record."""

    seed: int
    gin_bindings: tuple[str, ...]  # trained with; later ones override earlier ones
    params_dir: str  # absolute folder of the original params file and its modules
    params_name: str | None  # of that file; None if the run did not record it
    started_at: tuple[str, ...]
    deterministic: bool  # in this start
    initialized_from: str | None = None  # checkpoint of another experiment

    @classmethod
    def of_new_run(cls, settings: Settings, weights: InitialWeights | None = None) -> "Provenance":
        """Returns the origin of a new run; draws a seed if the user gave none."""
        seed = seed_of_run(settings)
        if seed is None:
            seed = int.from_bytes(os.urandom(4), "big")
        params = original_of(settings.params)  # for another experiment's copy, its original
        origin = str(weights.checkpoint.absolute()) if weights else None
        return cls(
            seed,
            settings.gin_bindings,
            str(params.parent),
            params.name,
            (_now(),),
            settings.deterministic,
            origin,
        )

    @classmethod
    def of_resumed_run(
        cls, settings: Settings, saved: Mapping[str, Any], has_begun: bool
    ) -> "Provenance":
        """Returns the origin of a resumed run, which keeps its seed and its bindings.

        Earlier starts count only if the run has begun; see `has_begun`.
        """
        return cls(
            saved["seed"],
            tuple(saved["gin_bindings"]),
            saved["params_dir"],
            saved["params_name"],
            (*(saved["started_at"] if has_begun else ()), _now()),
            settings.deterministic,
            saved["initialized_from"],
        )

    def write(
        self, path: pathlib.Path, git_diff: pathlib.Path, cpus: Mapping[str, Sequence[int]]
    ) -> None:
        """Writes `provenance.json`, with versions, host and CPUs of this start.

        Uncommitted changes go to `git_diff`, if there are any.
        """
        project = GitState.of_project()
        params = GitState.of_folder(pathlib.Path(self.params_dir))
        _write_diff(git_diff, project, params)
        record = dataclasses.asdict(self) | {
            "version": version(),
            "git_hash": project.commit if project else None,
            "params_git_hash": params.commit if params else None,
            "python": platform.python_version(),
            "host": platform.node(),
            "cpu_model": _cpu_model(),
            "cpus": cpus,
            "packages": dict(sorted(all_versions().items(), key=lambda item: item[0].lower())),
        }
        write_json_durably(path, record)


def seed_of_run(settings: Settings) -> int | None:
    """Returns SAC_SEED, or the seed that a task of an array derives from it; None for any."""
    if settings.seed is None or settings.task_id is None:
        return settings.seed
    return derive_seed(settings.seed, SeedPurpose.TASK, settings.task_id)


def is_new(paths: ExperimentPaths) -> bool:
    """Returns whether the folder is missing or empty.

    Raises:
      ConfigError: If it is not a folder, or an empty one behind a link.
    """
    if paths.root.exists() and not paths.root.is_dir():
        raise ConfigError(
            f"{paths.root} is not a folder. Choose another SAC_EXP_NAME, or move it away."
        )
    is_new = not paths.root.exists() or not any(paths.root.iterdir())
    if is_new and paths.root.is_symlink():  # a folder cannot be renamed to the name of a link
        raise ConfigError(
            f"{paths.root} is a link to {os.readlink(paths.root)}, where no experiment is. Choose "
            f"another SAC_EXP_NAME; for experiments on another disk, let {paths.root.parent} be a "
            "link."
        )
    return is_new


def create(
    paths: ExperimentPaths,
    settings: Settings,
    provenance: Provenance,
    cpus: Mapping[str, Sequence[int]],
    job: Job | None = None,
    weights: InitialWeights | None = None,
) -> int:
    """Makes the folder atomically; returns its locked descriptor (see `take_lock`)."""
    temporary = temporary_name(paths.root)
    unfinished = ExperimentPaths(temporary)
    try:
        make_folder_durably(temporary)
        shutil.copyfile(settings.config, unfinished.config)
        shutil.copyfile(settings.params, unfinished.params)
        if weights is not None:
            weights.copy_to(unfinished.initial_weights)
        begin_run(
            unfinished,
            imported_modules(unfinished.params, pathlib.Path(provenance.params_dir)),
            provenance.gin_bindings,
        )
        provenance.write(unfinished.provenance, unfinished.git_diff, cpus)
        lock = take_lock(unfinished.lock, job)
        try:
            rename_durably(temporary, paths.root)
        except OSError:
            if paths.lock.exists():
                take_lock(paths.lock)  # raises, and names the run that was faster
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return lock


def read_saved(paths: ExperimentPaths) -> dict[str, Any]:
    """Returns the provenance of a run to resume.

    Raises:
      ConfigError: If the folder is not an experiment's.
    """
    for path in (paths.config, paths.params, paths.provenance):
        if not path.is_file():
            raise ConfigError(
                f"{paths.root} cannot be resumed: it has no {path.name}. Choose another "
                "SAC_EXP_NAME, or move the folder away to start again."
            )
    keys = ("seed", "gin_bindings", "params_dir", "params_name", "started_at", "initialized_from")
    saved = read_provenance(paths.provenance, keys)
    assert saved is not None  # the experiment is locked
    return saved


def provenance_of_now(settings: Settings, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a provenance with the user's current bindings and params file.

    The seed and the initial weights are kept.
    """
    provenance = dict(saved) | {"gin_bindings": settings.gin_bindings}
    if settings.params.is_file():
        params = original_of(settings.params)
        provenance |= {"params_dir": str(params.parent), "params_name": params.name}
    return provenance


def files_of_now(paths: ExperimentPaths, settings: Settings) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the config and the params file for an experiment that has not begun.

    Each is the user's file, or the experiment's own if that was edited or the user's is missing.
    """

    def file_of_now(given: pathlib.Path, own: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
        is_edited = not copy.is_file() or own.read_bytes() != copy.read_bytes()
        return own if is_edited or not given.is_file() else given

    return (
        file_of_now(settings.config, paths.config, paths.running_config),
        file_of_now(settings.params, paths.params, paths.running_params),
    )


def take_files(paths: ExperimentPaths, config: pathlib.Path, params: pathlib.Path) -> None:
    """Copies the results of `files_of_now` into the experiment, and prints which have changed."""
    for given, own in ((config, paths.config), (params, paths.params)):
        if given.read_bytes() != own.read_bytes():
            write_bytes_atomically(own, given.read_bytes())
            print(f"  Nothing has been trained yet, so {given} is copied again.")


def has_begun(paths: ExperimentPaths) -> bool:
    """Returns whether any start of the run has left an episode or a checkpoint."""
    records = paths.episodes.glob("collect_*.csv")
    return any(generations(paths.checkpoints)) or any(
        record.read_bytes().count(b"\n") > 1
        for record in records  # more than its header
    )


def differences(paths: ExperimentPaths, settings: Settings, saved: Mapping[str, Any]) -> list[str]:
    """Returns a line for each input of the user that differs from the run's saved one."""
    notes = []
    try:
        given = load_env_config(settings.config)
        keys = differing_keys(json.loads(paths.config.read_text()), given)
        if keys:
            notes.append(f"{settings.config} differs in {', '.join(keys)}; the run keeps its own "
                         f"values. To change them, edit {paths.config}.")  # fmt: skip
    except ConfigError as error:
        notes.append(f"The run keeps its own {paths.config}. ({error})")
    if not settings.params.is_file():
        notes.append(f"There is no {settings.params}; the run keeps its own {paths.params}.")
    elif settings.params.read_bytes() != paths.params.read_bytes():
        notes.append(f"{settings.params} differs; the run keeps its own. "
                     f"To change it, edit {paths.params}.")  # fmt: skip
    if seed_of_run(settings) not in (None, saved["seed"]):
        notes.append(f"SAC_SEED is {settings.seed}; the run keeps its seed {saved['seed']}.")
    if (text := settings.initialize_from) and not may_name(text, saved["initialized_from"]):
        notes.append(f"{INITIALIZE_FROM} is {text}: for new experiments; the run keeps its own "
                     "weights.")  # fmt: skip
    return notes


def differing_keys(saved: Any, given: Any, prefix: str = "") -> list[str]:
    """Returns the dotted names of all keys whose values differ, or are missing on one side."""
    if not (isinstance(saved, dict) and isinstance(given, dict)):
        return [] if saved == given else [prefix]
    names = []
    for key in sorted(saved.keys() | given.keys()):
        name = f"{prefix}.{key}" if prefix else key
        if key in saved and key in given:
            names += differing_keys(saved[key], given[key], name)
        else:
            names.append(name)
    return names


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _write_diff(path: pathlib.Path, project: GitState | None, params: GitState | None) -> None:
    """Writes the uncommitted changes of both repositories."""
    states = {"the project": project}
    if params and (project is None or params.root != project.root):
        states["the params file"] = params
    diffs = [f"# git diff HEAD of the repository of {name}, {state.commit}\n{state.diff}"
             for name, state in states.items() if state and state.diff]  # fmt: skip
    if diffs:
        write_text_atomically(path, "\n".join(diffs))


def _cpu_model() -> str | None:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return None
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, None)
