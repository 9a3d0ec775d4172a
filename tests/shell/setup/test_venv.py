"""The .venv of setup.sh: made once, completed, made anew, and others' that are used."""

import os
import shutil
import signal
import sys
import time

import pytest
from shell.sandbox import slowdown
from shell.setup.sandbox import PROJECT


def test_second_call_is_quick_silent_and_installs_nothing(ready):
    first = ready.run()
    assert (first[0], first[1], ready.tape()) == (0, f"{ready.venv_bin}\n", ready.fresh)
    assert first[2].splitlines()[0] == "setup: making .venv with python3.11 3.11"

    started = time.monotonic()
    second = ready.run()
    assert time.monotonic() - started < 5 * slowdown()
    assert (second, ready.tape()) == ((0, f"{ready.venv_bin}\n", ""), [])


def test_test_packages_are_added_once_and_serve_runs_too(ready):
    ready.run()
    ready.tape()
    assert ready.run("--test")[0] == 0
    assert ready.tape() == ready.installed("base", "test")
    assert ready.run()[2] == ready.run("--test")[2] == ""
    assert ready.tape() == []


def test_changed_lock_installs_again_into_the_same_venv(ready):
    ready.run()
    ready.tape()
    with open(ready.project / "locks/base.lock", "a") as lock:
        lock.write("# a newer one\n")
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")


def test_interrupted_venv_is_made_anew(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/.unfinished").touch()
    (ready.project / ".venv/half_written").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.fresh
    assert not (ready.project / ".venv/half_written").exists()
    assert not (ready.project / ".venv/.unfinished").exists()


def test_an_interrupted_update_keeps_what_the_user_has_installed(ready):
    ready.run()
    ready.tape()
    with open(ready.project / "locks/base.lock", "a") as lock:
        lock.write("# a newer one\n")
    update = ready.start(STUB_PIP_SECS="30")
    deadline = time.monotonic() + 10
    while not (ready.project / ".venv/.updating").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (ready.project / ".venv/users_own_package").touch()
    os.killpg(update.pid, signal.SIGKILL)
    update.communicate(timeout=60)
    ready.tape()
    assert ready.run()[0] == 0
    constraint, pip, ours = ready.installed("base")
    assert ready.tape() == [constraint, pip.replace(" ", " --force-reinstall ", 1), ours]
    assert (ready.project / ".venv/users_own_package").exists()
    assert ready.run()[0] == 0
    assert ready.tape() == []


def test_venv_without_mark_is_kept_and_completed(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/users_own_package").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")
    assert (ready.project / ".venv/users_own_package").exists()


def test_failing_pip_shows_its_last_lines_and_is_tried_again(ready):
    status, stdout, stderr = ready.run(STUB_PIP_FAILS="1")
    assert (status, stdout) == (78, "")
    assert "No route to the packages" in stderr
    assert "pip failed" in stderr and "free disk space" in stderr
    ready.tape()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")


def test_pip_finds_the_constraints_in_a_folder_of_any_name(ready, tmp_path):
    ready.project = ready.project.rename(tmp_path / "my #1 100%20")
    assert ready.run()[0] == 0
    uri = f"file://{tmp_path}/my%20%231%20100%2520/locks/constraints.txt"
    assert ready.tape()[1] == f"constraint {uri}"


@pytest.mark.skipif(not shutil.which("flock"), reason="flock is not on this system")
def test_two_setups_at_once_install_once(ready):
    first = ready.start(STUB_PIP_SECS="3")
    deadline = time.monotonic() + 10
    while not (ready.project / ".venv/.unfinished").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = ready.run()
    stdout, _ = first.communicate(timeout=60)
    assert second == (
        0,
        f"{ready.venv_bin}\n",
        "setup: waiting for another setup of this folder to end\n",
    )
    assert (stdout, ready.tape()) == (second[1], ready.fresh)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_active_environment_with_the_packages_is_used(sandbox, variable):
    sandbox.stub("supervise", "exit 0")
    status, stdout, stderr = sandbox.run("--test", **{variable: sys.prefix})
    assert (status, stdout, stderr) == (0, f"{sys.prefix}/bin\n", "")
    assert not (sandbox.project / ".venv").exists()


def test_active_environment_with_another_tensorflow_is_left_alone(ready):
    lock = ready.project / "locks/base.lock"
    text = lock.read_text()
    assert "\ntensorflow==2.15.1\n" in text
    lock.write_text(text.replace("\ntensorflow==2.15.1\n", "\ntensorflow==2.15.0\n"))
    status, stdout, stderr = ready.run(VIRTUAL_ENV=sys.prefix)
    assert (status, stdout, ready.tape()) == (0, f"{ready.venv_bin}\n", ready.fresh)
    assert "not using the active environment" in stderr
    assert "tensorflow 2.15.1 is not the locked 2.15.0" in stderr
    assert ready.run(VIRTUAL_ENV=sys.prefix) == (0, stdout, "")


def test_unknown_argument_shows_usage(sandbox):
    status, _, stderr = sandbox.run("--tests")
    assert status == 78
    assert "unknown argument: --tests. Usage: setup.sh [--test] [--with EXTRA,...]" in stderr


def test_scripts_are_executable():
    for name in ("setup.sh", "run_tests.sh", "locks/make.sh"):
        assert os.access(PROJECT / name, os.X_OK)
