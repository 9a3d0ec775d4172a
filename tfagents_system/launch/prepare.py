"""Checks everything that can be checked at once, makes or resumes the folder, starts the run.

Example: python -m tfagents_system.launch.prepare   (run_script.sh does, with the SAC_* variables)

On success the process becomes train_script.sh, in a private network if it can have one; it
inherits the experiment's lock. On wrong input it prints one message and exits with 78; no file has
been changed then.
"""

import io
import os
import pathlib
import shutil
import signal
import sys

from tfagents_system.core.command_line import run_tool
from tfagents_system.core.cpus import available_cpus, cpu_list
from tfagents_system.core.disk import free_bytes, is_disk_full, shortage
from tfagents_system.core.env_config import load_env_config
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.ports import check_port_is_free, free_port
from tfagents_system.core.running import begin_run
from tfagents_system.core.settings import Settings
from tfagents_system.launch import experiment
from tfagents_system.launch.experiment import Provenance
from tfagents_system.launch.lock import take_lock
from tfagents_system.launch.packages import check_packages
from tfagents_system.launch.params_check import check_gin_bindings, check_params_file
from tfagents_system.launch.plan import ProcessSpec, cpu_table, make_plan
from tfagents_system.launch.private_network import network_line, why_open, with_private_network
from tfagents_system.launch.service_dirs import write_service_dirs

PROJECT = pathlib.Path(__file__).parents[2]


def prepare(settings: Settings, open_because: str | None) -> ExperimentPaths:
    """Checks the input, then writes the experiment's folder and services; holds its lock for good.

    Args:
      settings: What the user asked for.
      open_because: Why the run has no private network; None if it has.

    Raises:
      ConfigError: For wrong input.
    """
    paths = ExperimentPaths(settings.exp_dir)
    check_gin_bindings(settings.gin_bindings, "SAC_GIN_BINDINGS")
    if experiment.is_new(paths):
        _check_files(settings.config, settings.params, settings.params.absolute().parent)
        plan = _plan(settings)
        provenance = Provenance.of_new_run(settings)
        experiment.create(paths, settings, provenance, _cpus_by_name(plan))
        print(f"New experiment {paths.root}, seed {provenance.seed}.")
    else:
        take_lock(paths.lock)
        plan = _resume(paths, settings)
    write_service_dirs(plan, ExperimentPaths(paths.root.absolute()), PROJECT)
    shutil.rmtree(paths.status("learner").parent, ignore_errors=True)  # what the last start said
    print(f"This job may use CPU {cpu_list(available_cpus())}:\n{cpu_table(plan)}")
    print(network_line(open_because), flush=True)
    return paths


def _resume(paths: ExperimentPaths, settings: Settings) -> list[ProcessSpec]:
    saved = experiment.read_saved(paths)
    provenance = Provenance.of_resumed_run(settings, saved)
    check_gin_bindings(provenance.gin_bindings, str(paths.provenance))
    experiment.check_is_unfinished(paths, provenance.gin_bindings)
    _check_files(paths.config, paths.params, pathlib.Path(saved["params_dir"]))
    plan = _plan(settings)
    print(f"Resuming {paths.root}, seed {provenance.seed}.")
    for note in experiment.differences(paths, settings, saved):
        print(f"  {note}")
    if provenance.gin_bindings:
        print(f"  gin bindings in force: {'; '.join(provenance.gin_bindings)}")
    begin_run(paths)
    provenance.write(paths, _cpus_by_name(plan))
    paths.finished.unlink(missing_ok=True)
    return plan


def _check_files(config: pathlib.Path, params: pathlib.Path, params_dir: pathlib.Path) -> None:
    load_env_config(config)
    for note in check_params_file(params, (params_dir, PROJECT, PROJECT / "tfagents_system")):
        print(f"Note: {note}")


def _plan(settings: Settings) -> list[ProcessSpec]:
    if settings.reverb_port is not None:
        check_port_is_free(settings.reverb_port)
    port = free_port() if settings.reverb_port is None else settings.reverb_port
    return make_plan(settings, settings.exp_dir.absolute(), available_cpus(), port)


def _cpus_by_name(plan: list[ProcessSpec]) -> dict[str, tuple[int, ...]]:
    return {spec.name: spec.cpus for spec in plan}


def main() -> None:
    """Prepares the run of the SAC_* variables and becomes train_script.sh."""
    for number in (signal.SIGINT, signal.SIGTERM):  # without a traceback or a half-made folder
        if signal.getsignal(number) != signal.SIG_IGN:  # in the background of a script
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may be any bytes
    try:
        check_packages()
        settings = Settings.from_environ(os.environ)
        open_because = why_open(settings.private_network, settings.exp_dir)
        is_new = experiment.is_new(ExperimentPaths(settings.exp_dir))
        paths = prepare(settings, open_because)
    except ConfigError as error:
        print(f"run_script.sh: {error}", file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    except OSError as error:  # no permission, disk full
        print(f"run_script.sh: {error}", file=sys.stderr)
        if is_disk_full(error):
            folder = settings.exp_dir.parent
            print(f"{shortage('experiment', 0, free_bytes(folder))} in {folder}", file=sys.stderr)
        sys.exit(1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    command = [str(PROJECT / "train_script.sh"), str(paths.root), *(["new"] if is_new else [])]
    if open_because is None:
        command = with_private_network(command)
    os.execv(command[0], command)


if __name__ == "__main__":
    run_tool(main, ["run_script.sh", *sys.argv[1:]])
