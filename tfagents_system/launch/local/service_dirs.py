"""Writes the daemontools service folders of a run."""

import os
import pathlib
import secrets
import shlex
import shutil
import sys
from collections.abc import Sequence

from tfagents_system.core.process.cpus import cpu_list
from tfagents_system.core.process.process_start import WORKING_DIR_VARIABLE, command_folder
from tfagents_system.core.process.processes import MARK_VARIABLE
from tfagents_system.core.programs.program import EXIT_CODE_FILE_VARIABLE
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local.places import Service
from tfagents_system.launch.local.private_network import with_private_network

RUN_SERVICE = pathlib.Path(__file__).with_name("run_service.sh")
NO_PROCESS = " " * 39 + "\n"  # of `pid`, so that restart_budget can overwrite it on a full disk


def write_service_dirs(
    services: Sequence[Service], folder: pathlib.Path, paths: ExperimentPaths, project: pathlib.Path
) -> None:
    """Replaces `folder` by one with a folder for each service; nothing else may use it.

    The programs start in the folder `project` and change to the one in which the user gave the
    command; see process_start.py.
    Files of an earlier start (daemontools' state, exit codes, restart counts) are removed. All
    paths must be absolute.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    token, command_dir = secrets.token_hex(8), command_folder()
    for service in services:
        service_dir, mark = folder / service.name, f"{token}/{service.name}"
        service_dir.mkdir()
        log = paths.stdout(service.name)
        log.parent.mkdir(exist_ok=True)
        (service_dir / "run").symlink_to(RUN_SERVICE)
        (service_dir / "mark").write_text(mark)
        (service_dir / "pid").write_text(NO_PROCESS)
        script = _program_script(service, service_dir, log, project, command_dir, mark)
        (service_dir / "program.sh").write_bytes(os.fsencode(script))  # paths may be any bytes


def _program_script(
    service: Service,
    folder: pathlib.Path,
    log: pathlib.Path,
    project: pathlib.Path,
    command_dir: str,
    mark: str,
) -> str:
    environ = dict(service.env) | {
        EXIT_CODE_FILE_VARIABLE: str(folder / "exit_code"),
        MARK_VARIABLE: mark,
    }
    variables = [f"{name}={value}" for name, value in environ.items()]
    budget = "tfagents_system.launch.local.restart_budget"
    guard = [sys.executable, "-m", budget, str(folder), str(log)]
    there = ["env", f"{WORKING_DIR_VARIABLE}={command_dir}"]
    network = shlex.join(with_private_network([])) + " " if service.is_alone else ""
    # One chain of exec: the signals of svc, and TERM when supervise dies, reach the program.
    return (
        f"# Becomes {service.name}; supervise runs this after each of its ends, too.\n"
        f"cd {shlex.quote(str(project))} || exit 1\n"
        f"exec >>{shlex.quote(str(log))} 2>&1\n"
        f"exec {network}setpriv --pdeathsig TERM env {shlex.join(variables)} \\\n"
        f"  {shlex.join(guard)} \\\n"
        f"  taskset -c {cpu_list(service.cpus)} {shlex.join([*there, *service.argv])}\n"
    )
