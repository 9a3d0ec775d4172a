"""Locks files with flock, so that the kernel frees a lock when its holder ends.

Whoever can open a file can lock it, so only its user can open a lock's file. A program that only
queries a lock does not take it, because another one that starts at that moment would fail.
"""

import contextlib
import fcntl
import os
import pathlib
import platform
import re
from collections.abc import Iterator

from tfagents_system.core.state.files import read_json

PRIVATE = 0o600
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
# A line of /proc/locks, and one of /proc/PID/fdinfo/N. Runs take no read locks.
_HELD = r"FLOCK +\w+ +WRITE +-?\d+ +{device}:{inode} "
_ALL_PROCESSES = "pid:[4026531836]"  # linux/proc_ns.h: PROC_PID_INIT_INO


def open_lock(path: pathlib.Path) -> int:
    """Opens a lock's file, made if missing; child processes do not inherit the descriptor.

    In earlier versions other users could open the file and hold the lock for ever. Such a file is
    replaced, unless a process of this user, or a run on another host, may have it open.

    Raises:
      OSError: If the file is another user's, or the folder cannot be written.
    """
    descriptor = os.open(path, _FLAGS, PRIVATE)
    if _is_private(descriptor):
        return descriptor
    os.close(descriptor)
    with _one_at_a_time(path.with_name(f".{path.name}.renewed")):
        if not _is_private(path) and recorded_host(path) == platform.node() and not users(path):
            path.unlink()
        return os.open(path, _FLAGS, PRIVATE)


def try_lock(descriptor: int) -> bool:
    """Takes the lock if it is free; returns whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    if not _is_private(descriptor):
        with contextlib.suppress(OSError):  # a file system without modes
            os.fchmod(descriptor, PRIVATE)
    return True


def is_locked(path: pathlib.Path) -> bool:
    """Returns whether a process of this host holds the lock, without opening the file."""
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, AttributeError):  # missing; or not Linux, where nothing runs
        return False
    try:
        held = re.compile(_HELD.format(**_kernel_name(file)))
        if held.search(_read("/proc/locks")):
            return True
        # /proc/locks leaves out locks whose processes have ended or are hidden from this container;
        # fdinfo does not.
        return os.readlink("/proc/self/ns/pid") != _ALL_PROCESSES and any(
            held.search(_read(f"/proc/{pid}/fdinfo/{number}")) for pid, number in _opened(path)
        )
    except OSError:  # no /proc
        return False
    finally:
        os.close(file)


def recorded_host(path: pathlib.Path) -> str | None:
    """Returns the host of the last holder; None if it is not recorded or not readable."""
    try:
        host = read_json(path)["host"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return host if isinstance(host, str) else None


def users(path: pathlib.Path) -> list[int]:
    """Returns the visible processes on this host that have the file open."""
    found = {pid for pid, _ in _opened(path)}
    return sorted(pid for pid in found if _user_of(pid) in (os.geteuid(), path.stat().st_uid))


def _user_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:  # ended meanwhile
        return None


def _opened(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yields process and number of each descriptor of the file that this user may see."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
        except OSError:  # ended meanwhile, or another user's
            continue
        for number in numbers:
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.path.samefile(f"/proc/{pid}/fd/{number}", path):
                    yield int(pid), number


def _kernel_name(file: int) -> dict[str, str]:
    """Returns device and inode as the kernel lists them; `stat` differs on overlayfs and btrfs."""
    status, facts = os.fstat(file), _read(f"/proc/self/fdinfo/{file}")
    inode = re.search(r"^ino:\s*(\d+)", facts, re.M)
    mount = re.search(r"^mnt_id:\s*(\d+)", facts, re.M)
    line = mount and re.search(
        rf"^{mount[1]} \d+ (\d+):(\d+) ", _read("/proc/self/mountinfo"), re.M
    )
    major, minor = (
        map(int, line.groups()) if line else (os.major(status.st_dev), os.minor(status.st_dev))
    )
    number = inode[1] if inode else str(status.st_ino)
    return {"device": f"{major:02x}:{minor:02x}", "inode": number}


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _is_private(file: int | pathlib.Path) -> bool:
    return os.stat(file).st_mode & 0o077 == 0


@contextlib.contextmanager
def _one_at_a_time(path: pathlib.Path) -> Iterator[None]:
    mutex = os.open(path, _FLAGS, PRIVATE)
    try:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        yield
    finally:
        os.close(mutex)
