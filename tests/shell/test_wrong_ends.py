"""Ends of runs that user code and disks make hard, with stub programs under a real supervise."""

import os
import pathlib
import shutil
import signal

import pytest
from shell.sandbox import STARTS, TWO
from small_disk import small_disk

from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.system

# Simulators that leave their program: its session, its descendants, its variables, and TERM.
LOOP = "while :; do sleep {n}; done"
DAEMON = f"env -i /bin/sh -c 'trap : TERM; /usr/bin/setsid /bin/sh -c \"{LOOP}\" &'"
PLAIN = "setsid sleep {n} &"


def simulators(seconds: int) -> list[int]:
    """Process ids of what was started with this number."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text()
            is_alive = "State:\tZ" not in (folder / "status").read_text()
        except OSError:
            continue
        if is_alive and f"sleep\0{seconds}\0" in words or f"sleep {seconds};" in words:
            found.append(int(folder.name))
    return found


@pytest.fixture
def seconds():
    """A number that no other test's sleep has."""
    number = 1_000_000 + os.getpid()
    yield number
    for pid in simulators(number):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("child", [PLAIN, DAEMON], ids=["plain", "daemon"])
def test_a_server_that_an_environment_starts_ends_with_the_run_and_holds_nothing(
    sandbox, seconds, child
):
    code, _, err = sandbox.run(
        **TWO, STUB_LEARNER="finish", STUB_CHILD=child.format(n=seconds)
    )  # waits for the end of its output, too
    assert code == 0, err
    assert "killing them" not in err
    assert sandbox.alive() == {}
    assert simulators(seconds) == []
    code, out, _ = sandbox.run(**TWO)
    assert code == 78  # finished, and not in use
    assert "in use" not in out


def test_what_a_killed_worker_has_started_ends_while_the_run_goes_on(sandbox, seconds):
    run = sandbox.start(SAC_NUM_COLLECT_WORKERS="1", STUB_CHILD=DAEMON.format(n=seconds))
    sandbox.await_tape("worker_0 starts")
    wait_until(lambda: simulators(seconds), 60, "the simulator")
    before = set(simulators(seconds))
    os.kill(sandbox.seen("worker_0")["pid"], signal.SIGKILL)
    wait_until(lambda: not before & set(simulators(seconds)), 60, f"the end of {before}")
    wait_until(lambda: sandbox.tape().count("worker_0 starts") == 2, 60, "the worker's restart")
    assert run.poll() is None
    run.terminate()
    run.communicate(timeout=60)
    assert run.returncode == 143
    assert simulators(seconds) == []


def test_a_worker_without_term_does_not_outlive_its_launcher_for_long(sandbox, seconds):
    sandbox.set("stop_times.sh", STOP_WORKERS_SECS=3)
    run = sandbox.start(**TWO, STUB_WORKER_0="deaf", STUB_CHILD=PLAIN.format(n=seconds))
    sandbox.await_tape(*STARTS)
    wait_until(lambda: len(simulators(seconds)) == 2, 60, "both simulators")
    run.kill()
    sandbox.await_tape("learner stops", "replay stops", "worker_1 stops")
    wait_until(lambda: not sandbox.alive(), 60, f"the end of {sandbox.alive()}")
    wait_until(lambda: not simulators(seconds), 60, "the end of the simulators")


def test_a_disk_that_executes_nothing_holds_an_experiment(sandbox):
    with small_disk(20 << 20, "noexec") as disk:
        (sandbox.project / "logs").symlink_to(disk.folder)
        code, _, err = sandbox.run(**TWO, STUB_LEARNER="finish")
        assert code == 0, err
        assert "learner finishes" in sandbox.tape()


def test_a_program_that_cannot_begin_ends_the_run_with_one_sentence(sandbox):
    sandbox.set("train_script.sh", MAX_IDLE_LOOKS=2)
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    program = sandbox.exp_dir / "service" / "worker_1" / "program.sh"
    program.write_text("exit 1\n")
    os.kill(sandbox.seen("worker_1")["pid"], signal.SIGKILL)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert sandbox.alive() == {}
    assert sandbox.tape()[-3:] == ["worker_0 stops", "learner stops", "replay stops"]
    assert f"because worker_1 could not be started for 2 s: see {program}, which" in err


def test_what_fails_before_a_run_can_begin_is_refused_with_78(sandbox, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "taskset").write_text("#!/bin/sh\necho 'taskset: failed: not permitted' >&2; exit 1\n")
    (tools / "taskset").chmod(0o755)
    setup = f"#!/bin/sh\necho '{tools}:{pathlib.Path(shutil.which('python')).parent}'\n"
    sandbox.write("setup.sh", setup)
    code, _, err = sandbox.run(**TWO)
    assert code == 78
    assert "fails (taskset: failed: not permitted)" in err
    assert not sandbox.exp_dir.exists()


@pytest.mark.parametrize("moved", ["logs/pendulum", "logs"])
def test_a_renamed_folder_ends_the_run_with_its_state_in_the_new_place(sandbox, moved):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    (sandbox.project / moved).rename(sandbox.project / f"{moved}_old")
    _, err = run.communicate(timeout=60)
    place = sandbox.project / f"{moved}_old"
    new = place if moved == "logs/pendulum" else place / "pendulum"
    assert run.returncode == 1
    assert f"was renamed, or a folder above it: its state is saved in {new}. To go on" in err
    assert not sandbox.exp_dir.exists() and not sandbox.exp_dir.is_symlink()
    tape = (new / "tape").read_text().splitlines()
    assert tape[-2:] == ["learner stops", "replay stops"]
    assert sandbox.alive() == {}


def test_a_renamed_project_ends_the_run_with_its_state_in_the_new_place(sandbox, tmp_path):
    above = tmp_path / "above"
    above.mkdir()
    project = sandbox.project.rename(above / "project")
    sandbox.project, sandbox.exp_dir = project, project / "logs/pendulum"
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    above.rename(tmp_path / "new")
    _, err = run.communicate(timeout=60)
    new = tmp_path / "new/project/logs/pendulum"
    assert run.returncode == 1
    assert f"its state is saved in {new}. To go on" in err
    assert (new / "tape").read_text().splitlines()[-2:] == ["learner stops", "replay stops"]
    assert not above.exists()
    assert sandbox.alive() == {}


def test_a_run_named_like_a_mirror_ends_as_any_other(sandbox):
    environ = TWO | {"SAC_EXP_NAME": "mirror-x"}
    sandbox.exp_dir = sandbox.project / "logs/mirror-x"
    assert sandbox.run(**environ, STUB_LEARNER="finish")[0] == 0


def test_a_folder_that_another_has_replaced_gets_nothing_of_the_old_run(sandbox):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    os.kill(run.pid, signal.SIGSTOP)  # both steps before it looks
    sandbox.exp_dir.rename(sandbox.exp_dir.with_name("kept"))
    sandbox.exp_dir.mkdir()
    os.kill(run.pid, signal.SIGCONT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert f"what had been saved is in {sandbox.exp_dir.with_name('kept')}." in err
    assert list(sandbox.exp_dir.iterdir()) == []
    assert sandbox.alive() == {}


def test_a_removed_folder_ends_the_run(sandbox):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    away = sandbox.exp_dir.with_name("away")
    sandbox.exp_dir.rename(away)
    shutil.rmtree(away)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "because its folder logs/pendulum was removed while it ran" in err
    assert not sandbox.exp_dir.exists()
    assert sandbox.alive() == {}
