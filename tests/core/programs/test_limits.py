"""Limits of shells and containers that a run notices."""

import os
import resource
import subprocess
import sys

import pytest

from tfagents_system.core.programs.limits import raise_file_limit, shortages

INFINITE = resource.RLIM_INFINITY
ENOUGH = {
    resource.RLIMIT_NOFILE: (1024, 4096),
    resource.RLIMIT_NPROC: (INFINITE, INFINITE),
    resource.RLIMIT_AS: (INFINITE, INFINITE),
}


def found(limits=ENOUGH, left=float("inf"), folder="/dev/shm"):
    shortages_ = shortages(10, limits.__getitem__, lambda: left, folder)
    return [(shortage.text, shortage.is_fatal) for shortage in shortages_]


@pytest.fixture(autouse=True)
def large_shared_memory(monkeypatch):
    sizes = {"/dev/shm": 10**6, "/small": 16_000}  # blocks of 4,000 bytes
    disk = os.statvfs("/")

    def statvfs(path):
        class Disk:
            f_blocks, f_frsize = sizes[path], 4_000

        return Disk if path in sizes else disk

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_limits_that_suffice_are_not_named():
    assert found() == []


def test_limits_that_are_too_low_are_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # that of threads is not for root
    assert found(ENOUGH | {resource.RLIMIT_NOFILE: (100, 639)}) == [
        ("639 open files (ulimit -Hn) for 640", True)
    ]
    assert found(ENOUGH | {resource.RLIMIT_NPROC: (300, INFINITE)}) == [
        ("300 threads (ulimit -u, pids.max) for 320", True)
    ]
    assert found(left=319.0) == [("319 threads (ulimit -u, pids.max) for 320", True)]
    assert found(ENOUGH | {resource.RLIMIT_AS: (2 * 10**9, INFINITE)}) == [
        ("2.0 GB of addresses (ulimit -v) a program", False)
    ]
    assert found(folder="/small") == [("64.0 MB of shared memory (/small)", False)]


@pytest.mark.parametrize(
    ("soft", "hard", "raised"), [(256, 1024, 1024), (256, 20_000, 4096), (8192, 20_000, 8192)]
)
def test_children_may_open_as_many_files_as_are_allowed(soft, hard, raised):
    code = (
        "import resource; from tfagents_system.core.programs.limits import raise_file_limit; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); raise_file_limit(); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip("this test may not open as many files")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{(raised, hard)}\n"
    assert callable(raise_file_limit)
