import errno
import os
import subprocess
import sys

import pytest
from fakes import UNRIVALLED, FakeClock
from small_disk import small_disk

from tfagents_system.core.state.disk import (
    SPARE_BYTES,
    SpaceGuard,
    bytes_of,
    format_bytes,
    free_bytes,
    is_disk_full,
)
from tfagents_system.core.state.generations import checkpoint_bytes, publish_generation
from tfagents_system.core.waiting import wait_until

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NO_SPACE, True),
        (OSError(errno.EDQUOT, "over quota"), True),
        (RuntimeError("x.data: No space left on device"), True),  # as TensorFlow says it
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), False),
        (ValueError("full"), False),
    ],
)
def test_is_disk_full(error, expected):
    assert is_disk_full(error) == expected


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (3_141_592, "3.1 MB"), (999_960, "1.0 MB"), (2e9, "2.0 GB"),
     (5e12, "5.0 TB")],
)  # fmt: skip
def test_format_bytes(count, text):
    assert format_bytes(count) == text


def test_free_bytes_of_a_folder_that_is_not_yet_made_are_those_of_its_disk():
    with small_disk(1 << 20) as disk:
        assert free_bytes(disk.folder / "a" / "b") == 1 << 20
        disk.fill(spare_bytes=8192)
        assert free_bytes(disk.folder) == 8192


def test_checkpoint_bytes_are_those_of_the_newest_generation(tmp_path):
    assert checkpoint_bytes(tmp_path) == SPARE_BYTES
    for train_step in (1, 2):
        unfinished = tmp_path / ".tmp"
        (unfinished / "replay").mkdir(parents=True)
        (unfinished / "replay" / "items").write_bytes(bytes(1000 * train_step))
        publish_generation(unfinished, tmp_path, train_step, {}, UNRIVALLED)
    newest = bytes_of(tmp_path / "0000000002")
    assert newest > 2000
    assert checkpoint_bytes(tmp_path) == newest + SPARE_BYTES


def test_guard_goes_on_and_says_so_once_a_minute_and_when_there_is_space_again(tmp_path, capsys):
    clock = FakeClock()
    guard = SpaceGuard("policy", tmp_path, lambda: 3_100_000, clock)

    def write(error):
        with guard:
            if error:
                raise error
        return capsys.readouterr().out

    assert (write(None), guard.is_full) == ("", False)
    warning = write(NO_SPACE)
    assert guard.is_full
    assert warning.startswith("DISK FULL: policy needs 3.1 MB, ")
    assert warning.endswith(f" free in {tmp_path}; it is tried again.\n")
    clock.now = 59.9
    assert (write(NO_SPACE), guard.is_full) == ("", True)
    clock.now = 60.0
    assert write(NO_SPACE).startswith("DISK FULL: policy")
    assert write(None) == "There is space again: policy is written (failed before: 3).\n"
    assert (write(None), guard.is_full) == ("", False)


def test_guard_lets_every_other_error_through(tmp_path):
    with pytest.raises(PermissionError), SpaceGuard("policy", tmp_path):
        raise PermissionError(errno.EACCES, "not yours")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_does_not_fit_is_dropped_and_later_output_is_not(tmp_path, unbuffered):
    script = """
import sys
from tfagents_system.core.state.disk import keep_printing_on_full_disk

keep_printing_on_full_disk()
print("before", flush=True)
for command in iter(sys.stdin.readline, ""):
    for _ in range(2000):
        print("line", flush=True)
    sys.stderr.write("last line" + chr(10))
    open(sys.argv[1], "w").close()
"""
    done = tmp_path / "done"
    with small_disk(1 << 20) as disk:
        disk.fill(spare_bytes=4096)
        with (disk.folder / "log").open("w") as log:
            program = subprocess.Popen(
                [sys.executable, "-c", script, str(done)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            )  # fmt: skip
        program.stdin.write("go\n")
        program.stdin.flush()
        wait_until(done.exists, 60, "2000 lines")
        assert (disk.folder / "log").stat().st_size == 4096
        disk.free()
        program.communicate("go\n", timeout=20)
        assert program.returncode == 0
        text = (disk.folder / "log").read_text()
        assert text.startswith("before\nline\n")
        assert text.endswith("line\nlast line\n")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_guard_goes_on_beside_a_failing_disk_and_says_when_it_answers_again(
    tmp_path, capsys, number
):
    guard = SpaceGuard("policy", tmp_path)
    with guard:
        raise OSError(number, os.strerror(number))
    assert (guard.is_full, guard.lacks_space) == (True, False)
    assert os.strerror(number) in guard.problem
    assert capsys.readouterr().out == f"{guard.problem} in {tmp_path}; it is tried again.\n"
    with guard:
        pass
    assert (guard.is_full, guard.problem) == (False, None)
    said = "The disk answers again: policy is written (failed before: 1).\n"
    assert capsys.readouterr().out == said
