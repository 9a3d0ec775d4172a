"""Locks: for their user alone, and asked without being taken."""

import fcntl
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import threading

import pytest
from namespaces import needs_namespaces

from tfagents_system.core.state.file_locks import is_locked, open_lock, try_lock

NOBODY = 65534


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "lock"


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_a_lock_is_seen_while_it_is_held(lock):
    assert not is_locked(lock)
    descriptor = open_lock(lock)
    assert not is_locked(lock)
    assert try_lock(descriptor)
    assert is_locked(lock)
    os.close(descriptor)
    assert not is_locked(lock)


def test_a_lock_for_reading_is_nobody_s_run(lock):
    lock.touch()
    with lock.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not is_locked(lock)


def test_no_start_is_refused_because_others_ask(lock):
    open_lock(lock)
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            is_locked(lock)

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for reader in readers:
        reader.start()
    refused = 0
    for _ in range(300):
        descriptor = open_lock(lock)
        refused += not try_lock(descriptor)
        os.close(descriptor)
    stop.set()
    for reader in readers:
        reader.join()
    assert refused == 0


def test_asking_takes_no_lock(lock, monkeypatch):
    lock.touch()
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda *arguments: pytest.fail("a lock was taken"))
        patch.setattr(fcntl, "lockf", lambda *arguments: pytest.fail("a lock was taken"))
        assert not is_locked(lock)


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_its_user_can_open_a_lock(lock, umask):
    before = os.umask(umask)
    try:
        descriptor = open_lock(lock)
    finally:
        os.umask(before)
    assert mode_of(lock) == 0o600
    assert not os.get_inheritable(descriptor)


@pytest.fixture
def old_lock():
    """A file as an earlier version has left it, in a folder that others may enter."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        lock = pathlib.Path(folder, "lock")
        lock.write_text(json.dumps({"host": platform.node(), "pid": 1, "since": "", "job": None}))
        lock.chmod(0o644)
        yield lock


def holder(lock, user):
    """Starts a process of another user that holds the lock until its input ends."""
    code = (
        f"import fcntl, os, sys; os.setgid({user}); os.setuid({user}); file = open(sys.argv[1]); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_file_that_others_hold_is_replaced(old_lock):
    with holder(old_lock, NOBODY) as other:
        descriptor = open_lock(old_lock)
        assert try_lock(descriptor)
        assert mode_of(old_lock) == 0o600
        other.communicate()
        assert is_locked(old_lock)  # this one, not that of the other user


def test_a_run_of_an_earlier_version_keeps_its_lock(old_lock):
    with holder(old_lock, os.geteuid()) as run:
        descriptor = open_lock(old_lock)
        assert not try_lock(descriptor)
        assert is_locked(old_lock)
        run.communicate()
    assert try_lock(descriptor)
    assert mode_of(old_lock) == 0o600


def test_a_run_on_another_host_keeps_its_lock(old_lock):
    old_lock.write_text(json.dumps({"host": f"not {platform.node()}"}))
    before = old_lock.stat().st_ino
    os.close(open_lock(old_lock))
    assert old_lock.stat().st_ino == before


def test_who_may_not_open_the_file_sees_the_lock(old_lock):
    descriptor = open_lock(old_lock)
    assert try_lock(descriptor)
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os._exit(3 if is_locked(old_lock) and not os.access(old_lock, os.R_OK) else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_in_a_container_a_lock_is_seen_whose_taker_has_ended(lock):
    needs_namespaces()
    code = """
import os, sys, pathlib
from tfagents_system.core.state.file_locks import is_locked, open_lock, try_lock
path = pathlib.Path(sys.argv[1])
ready, told = os.pipe()
if os.fork() == 0:
    assert try_lock(open_lock(path))
    if os.fork():
        os._exit(0)  # the child has inherited it
    os.close(told)
    os.read(ready, 1)
    os._exit(0)
os.close(ready)
os.wait()
assert str(path.stat().st_ino) not in pathlib.Path("/proc/locks").read_text()
print(is_locked(path))
"""
    container = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*container, sys.executable, "-c", code, lock], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
