"""Runs a command in its own network namespace, out of everyone else's reach.

Usage: python -m tfagents_system.launch.local.private_network COMMAND [ARGUMENT...]

Reverb listens on every address of the machine and does not authenticate clients: on an open
network, every user of the machine, and anyone who reaches its ports, can read and change the replay
buffer. The private network is a namespace of the Linux kernel with only a loopback interface.
Users, files, process ids and signals are the same inside and outside.

It is a separate program, because a process with several threads, such as one that has imported
NumPy, cannot enter a user namespace.
"""

import ctypes
import errno
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.process.process_start import end_imports

MODULE = "tfagents_system.launch.local.private_network"

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # linux/sockios.h, linux/if.h


def why_open(wanted: bool | None, exp_dir: pathlib.Path) -> str | None:
    """Returns why a run cannot have a private network; None if it gets one.

    Args:
      wanted: SAC_PRIVATE_NETWORK; None for `auto`.
      exp_dir: Folder of the experiment, to which the run must be able to write; may be missing.

    Raises:
      ConfigError: If the user demands one, and it is not possible.
    """
    if wanted is False:
        return "SAC_PRIVATE_NETWORK is 0"
    obstacle = _find_obstacle(exp_dir.absolute())
    if obstacle is None:
        return None
    if wanted:
        raise ConfigError(
            f"SAC_PRIVATE_NETWORK is 1, but a private network is not possible here ({obstacle}). "
            "Have user and network namespaces allowed on this machine, or set auto or 0 to train "
            "where others can connect."
        )
    return f"a private one is not possible here: {obstacle}"


def network_line(open_because: str | None) -> str:
    """Returns the line that tells the user who can connect; see `why_open`."""
    if open_because is None:
        return ("Network: private, the programs reach only each other "
                "(SAC_PRIVATE_NETWORK=0 if an environment needs more).")  # fmt: skip
    return ("Network: open, whoever reaches this machine can connect to the replay server "
            f"({open_because}).")  # fmt: skip


def with_private_network(command: Sequence[str]) -> list[str]:
    """Returns the command that runs `command` in a private network."""
    return [sys.executable, "-m", MODULE, *command]


def enter() -> None:
    """Moves this process, which must have one thread, into a new network in which localhost works.

    Raises:
      OSError: If that is not allowed, or localhost does not work there.
    """
    try:
        _unshare(CLONE_NEWNET)  # root would lose its rights to others' files in a user namespace
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()  # unknown in the new namespace until they are mapped
        _unshare(CLONE_NEWUSER | CLONE_NEWNET)
        _write("/proc/self/setgroups", "deny")  # the kernel requires it; groups stay as they are
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    with socket.create_server(("localhost", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def _find_obstacle(exp_dir: pathlib.Path) -> str | None:
    """Tries `enter` in a separate process; returns the obstacle, None if there is none."""
    # In a user namespace, root has no special rights to others' files.
    test = ["test", "-x", str(pathlib.Path(__file__).with_name("train_script.sh"))]
    if os.access(exp_dir, os.W_OK):
        test += ["-a", "-w", str(exp_dir.absolute())]
    probe = subprocess.run(
        with_private_network(test), cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if probe.returncode == 0:
        return None
    last_words = probe.stderr.strip().splitlines()[-1:]
    return last_words[0] if last_words else f"in a user namespace {exp_dir} is not accessible"


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "unshare")


def _write(path: str, text: str) -> None:
    try:
        pathlib.Path(path).write_text(text)
    except OSError as error:  # the write's error has no file name
        raise OSError(error.errno, error.strerror, path) from error


def _reason(error: OSError) -> str:
    text = f"{error.filename or 'localhost'}: {error.strerror or error}"
    if error.errno == errno.ENOSPC:  # "No space left on device"
        text += "; user.max_user_namespaces or user.max_net_namespaces is reached"
    return text


def main(command: list[str]) -> None:
    """Becomes `command`, with the signals and descriptors that this process was started with."""
    if not command or command[0].startswith("-"):
        print(__doc__.splitlines()[2], file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback on Ctrl-C
    try:
        enter()
    except OSError as error:
        print(_reason(error), file=sys.stderr)
        sys.exit(1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)


if __name__ == "__main__":
    end_imports()
    main(sys.argv[1:])
