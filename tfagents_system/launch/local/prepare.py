"""Runs all checks, then makes or resumes the experiment's folder."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.ending import print_error
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.gin_bindings import last_of_each_name
from tfagents_system.core.settings.minibatches import paths_of_demonstrations
from tfagents_system.core.settings.variables import GIN_BINDINGS, Settings
from tfagents_system.core.state.disk import free_bytes, is_disk_full, shortage
from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.incarnation import CORE, Claims, Job
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.patience import patiently
from tfagents_system.core.state.pause import paused
from tfagents_system.core.state.provenance import original_of
from tfagents_system.core.state.reports import reporting_programs
from tfagents_system.core.state.running import begin_run
from tfagents_system.core.state.saved_training import unsaved_before
from tfagents_system.demonstrations.files import check_demonstrations, find_demonstrations
from tfagents_system.launch.checks.imported_modules import imported_modules
from tfagents_system.launch.checks.params_check import (
    check_gin_bindings,
    check_params_file,
    notes_on_config,
    setting_of,
)
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.experiment.ending import check_is_unfinished
from tfagents_system.launch.experiment.folder import Provenance
from tfagents_system.launch.experiment.initial_weights import InitialWeights
from tfagents_system.launch.experiment.lock import take_lock
from tfagents_system.launch.local.mirrors import check_has_packages
from tfagents_system.launch.local.places import Service


def prepare(
    settings: Settings, place: Callable[[], list[Service]], job: Job | None = None
) -> tuple[list[Service], int]:
    """Checks the input, then writes the experiment's folder and takes its lock.

    Args:
      settings: The user's settings.
      place: Returns the services of this host, or raises; called while the experiment is locked.
      job: The cluster's job, which may take over from an earlier start; see `take_lock`.

    Returns:
      The result of `place`, and the descriptor of the lock; see `take_lock`.

    Raises:
      ConfigError: For wrong input; nothing has been written then.
    """
    paths = ExperimentPaths(settings.exp_dir)
    bound = check_gin_bindings(settings.gin_bindings, GIN_BINDINGS)
    check_has_packages(settings)
    if experiment.is_new(paths):
        check_files(settings.config, settings.params)
        _check_demonstrations(paths, settings.params, bound)
        services = place()
        source = settings.initialize_from
        weights = InitialWeights.find(source) if source else None
        provenance = Provenance.of_new_run(settings, weights)
        lock = experiment.create(paths, settings, provenance, _cpus_by_name(services), job, weights)
        print(f"New experiment {paths.root}, seed {provenance.seed}.")
        if weights:
            print(f"  It starts with the weights of {weights.checkpoint}.")
    else:
        check_is_no_clone(paths)
        lock = take_lock(paths.lock, job, lambda: Claims(paths.incarnations).claim(CORE, job))
        services = _resume(paths, settings, bound, place, is_users_command=job is None)
    for report in reporting_programs(paths):  # reports of the last start
        paths.status(report).unlink(missing_ok=True)  # workers on other hosts may write new ones
    return services, lock


def check_is_no_clone(paths: ExperimentPaths) -> None:
    """Raises ConfigError for a folder of `sac clone`, which has nothing that a run could resume."""
    if paths.clone.exists():
        raise ConfigError(
            f"{paths.root} is what sac clone has trained. To go on with rewards, choose another "
            f"SAC_EXP_NAME, and add --initialize_from {paths.root} to sac train."
        )


@contextlib.contextmanager
def explained_os_errors(name: str, settings: Settings) -> Iterator[None]:
    """Turns missing permission or space into a message, prefixed with `name`, and an exit."""
    try:
        yield
    except OSError as error:
        print_error([name], error)
        if is_disk_full(error):
            folder = settings.exp_dir.parent
            print(f"{shortage('experiment', 0, free_bytes(folder))} in {folder}", file=sys.stderr)
        sys.exit(1)


def _resume(
    paths: ExperimentPaths,
    settings: Settings,
    bound: Mapping[str, Any],
    place: Callable[[], list[Service]],
    is_users_command: bool,  # else the start of a job, which must run what was submitted
) -> list[Service]:
    saved = experiment.read_saved(paths)
    has_begun = patiently(lambda: experiment.has_begun(paths), str(paths.checkpoints))
    is_taken_anew = is_users_command and not has_begun and not paths.run_spec.exists()
    config, params = paths.config, paths.params
    if is_taken_anew:  # no learner was ever built: what was submitted may have had a mistake
        saved = experiment.provenance_of_now(settings, saved)
        config, params = experiment.files_of_now(paths, settings)
    provenance = Provenance.of_resumed_run(settings, saved, has_begun)
    kept = [text for text in provenance.gin_bindings if text not in settings.gin_bindings]
    bound = {**check_gin_bindings(kept, str(paths.provenance)), **bound}
    early_end = check_is_unfinished(paths, bound)
    check_files(config, params)
    _check_demonstrations(paths, params, bound)
    _check_has_place_for_reports(paths)
    services = place()
    print(f"Resuming {paths.root}, seed {provenance.seed}.")
    experiment.take_files(paths, config, params)
    if early_end:
        print(f"  Training continues: {early_end}.")
    has_checkpoint = patiently(lambda: generations(paths.checkpoints), str(paths.checkpoints))
    if not has_checkpoint and (lost := unsaved_before(paths)):
        print(f"  Training starts again from nothing: {lost}.")
    if parts := paused(paths):
        print(f"  PAUSED: {' and '.join(parts)}, until you call sac resume {paths.root}.")
    for note in experiment.differences(paths, settings, saved):
        print(f"  {note}")
    in_force = last_of_each_name([*kept, *settings.gin_bindings], GIN_BINDINGS)
    if in_force:
        print(f"  gin bindings in force: {'; '.join(in_force)}")
    begin_run(paths, imported_modules(paths.params, pathlib.Path(saved["params_dir"])), in_force)
    cpus = _cpus_by_name(services)
    provenance.write(paths.running_provenance, paths.running_git_diff, cpus)
    if is_taken_anew:
        provenance.write(paths.provenance, paths.git_diff, cpus)
    return services


def check_files(config: pathlib.Path, params: pathlib.Path) -> None:
    """Raises ConfigError for mistakes that can be found without executing anything."""
    env_config = load_env_config(config)
    notes = check_params_file(params, (original_of(params).parent,))
    for note in [*notes, *notes_on_config(env_config, str(config), params)]:
        print(f"Note: {note}")


def _check_demonstrations(
    paths: ExperimentPaths, params: pathlib.Path, bound: Mapping[str, Any]
) -> None:
    """Raises ConfigError if demonstrations that the run does not have yet cannot be read."""
    value = setting_of(bound, params, "demonstrations")
    if not paths.demonstrations.exists():
        for path in paths_of_demonstrations(value):
            check_demonstrations(find_demonstrations(path, original_of(params).parent))


def _check_has_place_for_reports(paths: ExperimentPaths) -> None:
    for program in reporting_programs(paths):
        if paths.status(program).is_dir():
            raise ConfigError(
                f"{paths.status(program)} is a folder, where {program} writes its report. Move it "
                "away."
            )


def _cpus_by_name(services: Sequence[Service]) -> Mapping[str, Sequence[int]]:
    return {service.name: service.cpus for service in services}
