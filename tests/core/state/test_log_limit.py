"""The log of a program stays small, whoever prints into it."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from tfagents_system.core.state.log_limit import LogLimit
from tfagents_system.core.waiting import wait_until

PRINTS_EACH_LINE = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "worker_0.log"
    path.write_bytes(b"")
    return path


@pytest.fixture
def descriptor(log):
    number = os.open(log, os.O_WRONLY | os.O_APPEND)
    yield number
    os.close(number)


def test_a_log_that_is_too_long_is_moved_and_begun_again(log, descriptor, capsys):
    limit = LogLimit(descriptor, max_bytes=1000)
    os.write(descriptor, b"a" * 1000)
    limit.check()
    assert log.stat().st_size == 1000 and capsys.readouterr().out == ""
    os.write(descriptor, b"b")
    limit.check()
    assert log.read_bytes() == b""
    older = log.with_name("worker_0.log.1")
    assert older.read_bytes() == b"a" * 999 + b"b"  # the last 1000
    assert capsys.readouterr().out == (
        "This log was longer than 1.0 kB; its end is in worker_0.log.1.\n"
    )
    os.write(descriptor, b"c" * 5000)
    limit.check()
    assert older.read_bytes() == b"c" * 1000  # two files at most
    assert sorted(path.name for path in log.parent.iterdir()) == ["worker_0.log", "worker_0.log.1"]


def test_a_process_of_the_simulator_writes_into_the_log_from_its_beginning(log, descriptor):
    simulator = subprocess.Popen(
        [sys.executable, "-c", PRINTS_EACH_LINE],
        stdin=subprocess.PIPE, stdout=descriptor, text=True,
    )  # fmt: skip
    with simulator:
        for line in ("one" * 400, "two"):
            print(line, file=simulator.stdin, flush=True)
            wait_until(lambda line=line: line in log.read_text(), 10.0, "the simulator's line")
            LogLimit(descriptor, max_bytes=1000).check()
        simulator.stdin.close()
    assert log.read_text() == "two\n"


def test_the_log_of_a_renamed_experiment_is_moved_within_its_new_folder(log, descriptor):
    renamed = log.parent.rename(log.parent.with_name("renamed"))
    os.write(descriptor, b"a" * 1001)
    LogLimit(descriptor, max_bytes=1000).check()
    assert (renamed / "worker_0.log.1").stat().st_size == 1000


def test_on_a_full_disk_the_log_is_dropped(log, descriptor, monkeypatch, capsys):
    def fails(source, target):
        target.write(b"a")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", fails)
    os.write(descriptor, b"a" * 1001)
    LogLimit(descriptor, max_bytes=1000).check()
    assert [path.name for path in log.parent.iterdir()] == ["worker_0.log"]
    assert log.read_bytes() == b""
    assert capsys.readouterr().out.endswith("it is lost: No space left on device.\n")
