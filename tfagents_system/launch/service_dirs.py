"""Writes the daemontools service folders of a run."""

import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Sequence

from tfagents_system.core.cpus import cpu_list
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.program import EXIT_CODE_FILE_VARIABLE
from tfagents_system.launch.plan import ProcessSpec


def write_service_dirs(
    plan: Sequence[ProcessSpec], paths: ExperimentPaths, project: pathlib.Path
) -> None:
    """Replaces `service/` by one folder a program; the caller holds the experiment's lock.

    What an earlier start left there (daemontools' state, exit codes, restart counts) is removed.
    `paths` and `project` must be absolute.
    """
    shutil.rmtree(paths.services, ignore_errors=True)
    for spec in plan:
        folder = paths.services / spec.name
        folder.mkdir(parents=True)
        paths.stdout(spec.name).parent.mkdir(exist_ok=True)
        with open(folder / "run", "wb", opener=_open_executable) as run:
            run.write(os.fsencode(_run_script(spec, paths, project)))  # paths may be any bytes


def _open_executable(path: str, flags: int) -> int:
    return os.open(path, flags, 0o777)  # the umask takes away what others shall not have


def _run_script(spec: ProcessSpec, paths: ExperimentPaths, project: pathlib.Path) -> str:
    folder = paths.services / spec.name
    environ = dict(spec.env) | {EXIT_CODE_FILE_VARIABLE: str(folder / "exit_code")}
    variables = [f"{name}={value}" for name, value in environ.items()]
    guard = [sys.executable, "-m", "tfagents_system.launch.restart_budget", str(folder)]
    log = shlex.quote(str(paths.stdout(spec.name)))
    # One chain of exec: the signals of svc, and TERM when supervise dies, reach the program.
    return (
        "#!/bin/sh\n"
        f"# Starts {spec.name}; supervise runs this after each of its ends, too.\n"
        f"cd {shlex.quote(str(project))} || exit 1\n"
        f"exec >>{log} 2>&1\n"
        f"exec setpriv --pdeathsig TERM env {shlex.join(variables)} \\\n"
        f"  {shlex.join(guard)} \\\n"
        f"  taskset -c {cpu_list(spec.cpus)} {shlex.join(spec.argv)}\n"
    )
