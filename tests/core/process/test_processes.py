"""Real processes, which start children as simulators do."""

import fcntl
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tfagents_system.core.process import processes
from tfagents_system.core.waiting import wait_until

STARTS = {
    "a child": ["sleep", "60"],
    "in a session of its own": ["setsid", "sleep", "60"],
    "an orphan": ["sh", "-c", "sleep 60 & :"],
    "a daemon": ["sh", "-c", "setsid sh -c 'sleep 60 & sleep 60' & :"],
    "that ignores TERM": ["sh", "-c", "trap '' TERM; sleep 60; sleep 60"],
    "without our variables": ["env", "-i", "/bin/sh", "-c", "/usr/bin/setsid /bin/sleep 60 &"],
}


@pytest.mark.parametrize("argv", STARTS.values(), ids=STARTS)
def test_nothing_that_a_block_starts_is_left(argv):
    kept = subprocess.Popen(["sleep", "60"])
    try:
        before = processes.descendants()
        with processes.leaving_none_behind():
            started = subprocess.Popen(argv)
            wait_until(lambda: processes.descendants() - before, 60, "the child")
            if "&" in argv[-1]:
                started.wait()
            assert processes.descendants() - before
        assert processes.descendants() <= before
        assert kept.poll() is None  # what was there before is not ours to end
        started.wait()
    finally:
        kept.kill()
        kept.wait()


def test_processes_are_found_by_the_mark_of_their_start():
    environ = {**os.environ, processes.MARK_VARIABLE: "a1/worker_0"}
    found = subprocess.Popen(["sh", "-c", "sleep 60; :"], env=environ)
    other = subprocess.Popen(
        ["sleep", "60"], env={**environ, processes.MARK_VARIABLE: "a1/worker_01"}
    )
    try:
        wait_until(
            lambda: len(processes.marked(["a1/worker_0"])) == 2, 5, "the shell and its child"
        )
        assert found.pid in {process.pid for process in processes.marked(["a1/worker_0"])}
        assert processes.end(lambda: processes.marked(["a1/worker_0"])) == 2
        found.wait(timeout=5)
        assert other.poll() is None
    finally:
        for process in (found, other):
            process.kill()
            process.wait()


# How a process can start another one: what each gets of the parent's descriptors differs.
WAYS = {
    "system": "os.system('sleep 60 &')",
    "subprocess": "subprocess.Popen(['sleep', '60'], close_fds=False)",
    "spawn": "os.posix_spawn('/bin/sleep', ['sleep', '60'], {})",
    "fork": "os.fork() or time.sleep(60)",
    "multiprocessing": "mp.get_context('fork').Process(target=time.sleep, args=(60,)).start()",
}


@pytest.mark.parametrize("start", WAYS.values(), ids=WAYS)
def test_children_hold_no_lock_while_the_program_does(start, tmp_path):
    lock = tmp_path / "lock"
    script = textwrap.dedent(f"""
        import multiprocessing as mp, os, subprocess, time
        from tfagents_system.core.process import processes
        processes.keep_descriptors()
        {start}
        print("started", flush=True)
        input()
        os._exit(0)
    """)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        program = subprocess.Popen(
            [sys.executable, "-c", script], pass_fds=[file.fileno()], start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=pathlib.Path.cwd(),
        )  # fmt: skip
    try:
        assert program.stdout.readline() == "started\n"
        assert not _is_free(lock)  # the program itself holds it still
        program.stdin.write("\n")
        program.stdin.flush()
        program.wait(timeout=10)
        os.killpg(program.pid, 0)  # the child lives
        wait_until(lambda: _is_free(lock), 60, "the child to close the lock")
    finally:
        os.killpg(program.pid, 9)
        program.stdin.close()
        program.stdout.close()


def _is_free(lock: pathlib.Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
