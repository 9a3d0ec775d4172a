"""Locks an experiment's folder for one run."""

import dataclasses
import json
import os
import pathlib
import platform
import pwd
import time
from collections.abc import Callable

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.file_locks import open_lock, try_lock, users
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.incarnation import Job

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
      lock: The lock's file.
      job: The cluster's job of this process. If the cluster has started it in place of the holder's
        job, because it considers the holder's host dead, this call takes over.
      supersede: Called before the takeover; makes the holder, if it is alive, end by itself.
      timeout_secs: Time to wait for the lock in a takeover. After that it continues without the
        lock, which a hanging host keeps: fences prevent the holder from changing anything
        (core/state/incarnation.py).

    Raises:
      ConfigError: If another run holds the lock; its folder has not been changed.
    """
    descriptor = _open(lock)
    if not try_lock(descriptor):
        if job is None or not job.replaces(_job_of_holder(lock)):
            os.close(descriptor)
            raise ConfigError(
                f"{lock.parent} is in use by another run ({_describe_holder(lock)}). "
                "Wait for its end, or end these processes; a new run needs another SAC_EXP_NAME."
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
        "user": _user_name(os.geteuid()),
        "pid": os.getpid(),
        "since": time.strftime("%F %T"),
        "job": None if job is None else dataclasses.asdict(job),
    }
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{json.dumps(holder)}\n".encode())
    os.set_inheritable(descriptor, True)
    return descriptor


def _open(lock: pathlib.Path) -> int:
    try:
        return open_lock(lock)
    except PermissionError as error:
        if not lock.exists():
            raise
        owner = _user_name(lock.stat().st_uid)
        raise ConfigError(
            f"{lock.parent} is an experiment of {owner}, who alone can start or prune it: {lock} "
            f"is not for {_user_name(os.geteuid())}. A run of yours needs another SAC_EXP_NAME."
        ) from error


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container
        return f"user {uid}"


def _job_of_holder(lock: pathlib.Path) -> Job | None:
    try:
        return Job(**read_json(lock)["job"])
    except (OSError, ValueError, LookupError, TypeError):  # no job, or an older version's file
        return None


def _describe_holder(lock: pathlib.Path) -> str:
    try:
        holder = read_json(lock)
        process = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        user = holder.get("user")  # missing in older versions' files
        recorded = f"{process}, of {user}" if user else process
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        recorded = "which has not recorded itself yet"
    alive = ", ".join(map(str, users(lock)))
    return f"{recorded}; living here: {alive}" if alive else recorded
