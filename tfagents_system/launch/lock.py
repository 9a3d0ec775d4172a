"""One run per experiment folder."""

import fcntl
import json
import os
import pathlib
import platform
import time

from tfagents_system.core.errors import ConfigError


def take_lock(lock: pathlib.Path) -> int:
    """Locks an experiment for this process and all that inherit the returned descriptor.

    The lock is free again when the last of them has ended, however it ended.

    Raises:
      ConfigError: If another run holds it; its folder has not been changed.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(
            f"{lock.parent} is in use by another run ({_describe_holder(lock)}). "
            "Wait for its end, end these processes, or choose another SAC_EXP_NAME."
        ) from None
    holder = {"host": platform.node(), "pid": os.getpid(), "since": time.strftime("%F %T")}
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{json.dumps(holder)}\n".encode())
    os.set_inheritable(descriptor, True)
    return descriptor


def _describe_holder(lock: pathlib.Path) -> str:
    try:
        holder = json.loads(lock.read_text())
        recorded = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError):
        recorded = "which has not recorded itself yet"
    alive = [pid for pid in os.listdir("/proc") if pid.isdigit() and _has_open(pid, lock)]
    return f"{recorded}; living here: {', '.join(alive)}" if alive else recorded


def _has_open(pid: str, file: pathlib.Path) -> bool:
    try:
        return any(link.samefile(file) for link in pathlib.Path("/proc", pid, "fd").iterdir())
    except OSError:  # ended meanwhile, or another user's
        return False
