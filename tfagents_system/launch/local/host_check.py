"""Checks that this host has what every program of a run needs, before the run begins.

Later, such a failure would end each start of each program before restart_budget.py counts it.
"""

import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.cpus import cpu_list
from tfagents_system.launch.local.service_dirs import RUN_SERVICE

TOOLS = ("supervise", "svc", "svok", "setlock", "pgrphack", "setpriv", "taskset", "timeout")
TIMEOUT_SECS = 30.0  # for a command that does nothing, on a slow network disk


def check_host(folder: pathlib.Path, cpus: Iterable[int]) -> None:
    """Raises ConfigError if programs cannot be started here.

    Args:
      folder: Folder of the experiment or share; if it is missing, its nearest parent is tested.
      cpus: Ids of the CPUs of the programs.
    """
    _check_tools()
    _check_localhost()
    while not folder.is_dir():
        folder = folder.parent
    with tempfile.TemporaryDirectory(prefix=".sac_probe_", dir=folder) as name:
        probe = pathlib.Path(name)
        _try(folder, "a lock (flock)", lambda: _lock(probe / "lock"))
        _try(folder, "a named pipe", lambda: os.mkfifo(probe / "pipe"))
        _try(folder, "a symbolic link", lambda: (probe / "run").symlink_to(RUN_SERVICE))
        (probe / "program.sh").write_text("exit 0\n")
        _run([str(probe / "run")])
        _run(["setpriv", "--pdeathsig", "TERM", "setlock", "-n", str(probe / "lock"),
              "pgrphack", "taskset", "-c", cpu_list(sorted(cpus)), "env", "true"])  # fmt: skip


def _check_tools() -> None:
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise ConfigError(
            f"{', '.join(missing)} not found on PATH ({os.environ.get('PATH', '')}). They are of "
            "daemontools, util-linux and coreutils, which setup.sh and apt-get install."
        )


def _check_localhost() -> None:
    try:
        found = {address[0] for *_, address in socket.getaddrinfo("localhost", 1)}
    except OSError as error:
        found, reason = set(), str(error)
    else:
        reason = f"it is {', '.join(sorted(map(str, found)))}"
    if not found & {"127.0.0.1", "::1"}:
        raise ConfigError(
            f"The name localhost does not lead to this machine ({reason}), and the programs of a "
            "run find each other by it. Add the line '127.0.0.1 localhost' to /etc/hosts."
        )


def _lock(path: pathlib.Path) -> None:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _try(folder: pathlib.Path, what: str, make: Callable[[], object]) -> None:
    try:
        make()
    except OSError as error:
        raise ConfigError(
            f"The disk of {folder} cannot hold {what} ({error.strerror}), which a run needs. Train "
            "in a folder of another disk, to which logs may be a link."
        ) from error


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TIMEOUT_SECS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    else:
        if done.returncode == 0:
            return
        reason = done.stderr.strip() or f"exit code {done.returncode}"
    raise ConfigError(
        f"Programs cannot be started here: {' '.join(command)} fails ({reason}). Each program of a "
        "run is started so; have that allowed, or train on another machine."
    )
