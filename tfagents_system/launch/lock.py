"""One run per experiment folder."""

import dataclasses
import fcntl
import json
import os
import pathlib
import platform
import time
from collections.abc import Callable

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.incarnation import Job

TAKEOVER_SECS = 120.0  # a dead NFS client's lock outlives it by a lease of about 90 s


def take_lock(
    lock: pathlib.Path,
    job: Job | None = None,
    supersede: Callable[[], object] = lambda: None,
    timeout_secs: float = TAKEOVER_SECS,
) -> int:
    """Locks an experiment for this process and all that inherit the returned descriptor.

    The lock is free again when the last of them has ended, however it ended.

    Args:
      lock: The file.
      job: What a cluster has started; if in the place of the job that holds the lock, whose host it
        takes for dead, this call takes over.
      supersede: Called before it takes over: makes the holder, should it live, end by itself.
      timeout_secs: How long it then waits for the lock, before it goes on without: what the holder
        may not change any more is fenced (core/incarnation.py), and a host that hangs keeps its
        lock.

    Raises:
      ConfigError: If another run holds it; its folder has not been changed.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    if not try_lock(descriptor):
        if job is None or not job.replaces(_job_of_holder(lock)):
            os.close(descriptor)
            raise ConfigError(
                f"{lock.parent} is in use by another run ({_describe_holder(lock)}). "
                "Wait for its end, end these processes, or choose another SAC_EXP_NAME."
            )
        print(f"Taking over {lock.parent} from an earlier start of this job "
              f"({_describe_holder(lock)}).", flush=True)  # fmt: skip
        supersede()
        deadline = time.monotonic() + timeout_secs
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                print(f"WARNING: it has held the lock for {timeout_secs:g} s since; going on "
                      "without. It can change nothing any more.", flush=True)  # fmt: skip
                break
            time.sleep(0.5)
    holder = {
        "host": platform.node(),
        "pid": os.getpid(),
        "since": time.strftime("%F %T"),
        "job": None if job is None else dataclasses.asdict(job),
    }
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{json.dumps(holder)}\n".encode())
    os.set_inheritable(descriptor, True)
    return descriptor


def try_lock(descriptor: int) -> bool:
    """Takes the lock if nobody holds it; returns whether it has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _job_of_holder(lock: pathlib.Path) -> Job | None:
    try:
        return Job(**json.loads(lock.read_text())["job"])
    except (OSError, ValueError, LookupError, TypeError):  # no job, or written by an older version
        return None


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
