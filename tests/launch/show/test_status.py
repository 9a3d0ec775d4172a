import errno
import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys

import pytest
from fakes import FakeClock
from report_fakes import learner_report, worker_report, write_report

from tfagents_system.commands.list_runs import state_of
from tfagents_system.core.state.disk import SPARE_BYTES
from tfagents_system.core.state.mirror_addresses import write_address
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.pause import pause
from tfagents_system.core.state.reports import Evaluation, Phase
from tfagents_system.launch.experiment.lock import take_lock
from tfagents_system.launch.show import status
from tfagents_system.launch.show.ending import ending
from tfagents_system.launch.show.status import GONE_SECS, Watch
from tfagents_system.launch.show.status_line import status_line


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "episodes").mkdir()
    return ExperimentPaths(tmp_path)


def show(*arguments):
    """Runs the program to its end; returns exit code, output and error output."""
    command = [sys.executable, "-m", "tfagents_system", "watch", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout, done.stderr


def test_a_look_survives_missing_and_damaged_files(paths):
    for name in ("replay", "learner", "worker_0", "worker_1"):
        (paths.services / name).mkdir(parents=True)
    write_report(paths, worker_report(restarts=2))
    paths.status("replay").write_text('{"time": 1, "ite')
    paths.lock.touch()
    with paths.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        snapshot = Watch(paths).look()
    assert snapshot.reports == {
        "replay": None, "learner": None, "worker_0": worker_report(restarts=2), "worker_1": None
    }  # fmt: skip
    line = status_line(snapshot)
    assert re.fullmatch(r"unknown: replay \(.*\) \| starting learner, worker_1 \| restarts 2", line)


def test_silence_is_counted_by_the_reader_s_clock_from_the_last_change(paths):
    clock = FakeClock(50.0)
    watch = Watch(paths, clock)
    write_report(paths, learner_report(written_at=10.0))  # by a clock that is wrong by years
    assert watch.look().silent_secs == {"learner": 0}
    clock.now += 40
    assert watch.look().silent_secs == {"learner": 40}
    write_report(paths, learner_report(written_at=10.0, sequence=1))
    assert watch.look().silent_secs == {"learner": 0}
    clock.now += 3
    write_report(paths, learner_report(written_at=10.0, sequence=1, pid=8))  # started again
    assert watch.look().silent_secs == {"learner": 0}


def test_a_run_is_running_while_its_lock_is_held(paths):
    assert not Watch(paths).look().is_running  # never ran
    holder = take_lock(paths.lock)
    assert Watch(paths).look().is_running
    fcntl.flock(holder, fcntl.LOCK_UN)
    assert not Watch(paths).look().is_running


def test_a_look_takes_no_lock(paths, monkeypatch):
    paths.lock.touch()
    monkeypatch.setattr(fcntl, "flock", lambda *arguments: pytest.fail("a lock was taken"))
    assert not Watch(paths).look().is_running


def test_another_user_s_run_on_another_host_is_running_while_its_reports_change(paths, monkeypatch):
    paths.lock.touch()
    monkeypatch.setattr("os.access", lambda path, mode: path != paths.lock)
    clock = FakeClock(50.0)
    watch = Watch(paths, clock)
    write_report(paths, learner_report(host=f"not {platform.node()}"))
    assert watch.look().is_running
    clock.now += GONE_SECS + 1
    assert not watch.look().is_running


def test_a_run_on_another_host_is_running_while_its_reports_change(paths):
    paths.lock.write_text(json.dumps({"host": f"not {platform.node()}", "pid": 1, "since": ""}))
    clock = FakeClock(50.0)
    watch = Watch(paths, clock)
    write_report(paths, learner_report())
    assert watch.look().is_running
    clock.now += GONE_SECS - 1
    write_report(paths, learner_report(sequence=1))
    assert watch.look().is_running
    clock.now += GONE_SECS - 1
    assert watch.look().is_running
    clock.now += 1
    assert not watch.look().is_running


def test_program_shows_the_final_state_of_a_finished_run_and_ends(paths):
    write_report(paths, learner_report(phase=Phase.FINISHED, train_step=50_000, iteration=1_000))
    write_report(paths, worker_report(phase=Phase.FINISHED))
    paths.finished.write_text("{}")
    paths.lock.touch()
    assert show(paths.root) == (
        0,
        "finished | iteration 1,000 of 1,000 (100%) | train steps 50,000 | env steps 12,000 | "
        "return -800.0\n"
        f"{ending(paths)}\n",
        "",
    )


def test_program_shows_the_last_state_of_a_dead_run_and_says_that_nothing_is_running(paths):
    write_report(paths, learner_report())
    code, output, errors = show(paths.root)
    assert (code, errors) == (0, "")
    state, last = output.splitlines()
    assert state == "iteration 120 of 1,000 (12%) | train steps 6,000"
    assert last.startswith("Nothing is running, and training is not finished")


def test_program_goes_on_while_a_run_is_running_and_then_prints_the_last_line(paths):
    write_report(paths, learner_report())
    holder = take_lock(paths.lock)
    code = (
        "import pathlib, sys; from tfagents_system.launch.show import status; "
        "status.PLAIN_PERIOD_SECS = 0.05; status.show(pathlib.Path(sys.argv[1]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(paths.root)], stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            for _ in range(2):
                assert "train steps 6,000, 200/s" in program.stdout.readline()
            write_report(paths, learner_report(phase=Phase.FINISHED, train_step=50_000))
            paths.finished.write_text("{}")
            fcntl.flock(holder, fcntl.LOCK_UN)
            *_, state, finished, _ = program.stdout.read().splitlines()
        finally:
            program.kill()
    assert state.startswith("finished | ")
    assert "train steps 50,000" in state
    assert finished.startswith("Training is finished.")


def test_a_watch_tells_once_what_stays_so(paths):
    write_report(paths, worker_report(obstacle="a convolution"))
    watch = Watch(paths)
    assert watch.news(watch.look()) == ["workers act in TensorFlow: a convolution"]
    assert watch.news(watch.look()) == []
    (paths.mirrors / "mlflow").mkdir(parents=True)
    write_address(paths.mirrors / "mlflow", "http://tracker/#/runs/1")
    assert watch.news(watch.look()) == ["mirrored to mlflow: http://tracker/#/runs/1"]


def test_a_terminal_shows_as_much_as_fits(paths, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    write_report(paths, learner_report())
    write_report(paths, worker_report(eval=Evaluation(100, [-200.0], successes=1)))
    status._show_on_terminal(Watch(paths).look())
    assert capsys.readouterr().out.endswith(
        f"{status.CLEAR}iteration 120 of 1,000 (12%) | return -800.0 | eval -200.0 | success 100%"
    )


def test_status_says_once_where_a_mirror_is(paths):
    write_report(paths, learner_report())
    (paths.mirrors / "mlflow").mkdir(parents=True)
    write_address(paths.mirrors / "mlflow", "http://tracker/#/runs/1")
    _, output, _ = show(paths.root)
    assert output.splitlines()[-2] == "mirrored to mlflow: http://tracker/#/runs/1"
    assert output.count("mirrored") == 1


def test_unknown_experiment_is_an_error_with_the_nearest_name(tmp_path):
    (tmp_path / "pendulum").mkdir()
    code, output, errors = show(tmp_path / "pendlum")
    assert (code, output) == (78, "")
    assert errors == (
        f"sac watch: {tmp_path}/pendlum: no such experiment folder. "
        f"Did you mean {tmp_path}/pendulum?\n"
    )


def test_without_arguments_the_missing_one_is_named():
    code, _, errors = show()
    assert (code, errors) == (
        78, "sac watch: the following arguments are required: EXP_DIR. See --help.\n"
    )  # fmt: skip


def test_status_says_what_is_paused(paths):
    write_report(paths, learner_report())
    pause(paths, ["learning"])
    _, output, _ = show(paths.root)
    assert output.startswith("PAUSED: learning (sac resume ends it) | iteration 120 of 1,000")
    assert state_of(paths, Watch(paths).look()) == "stopped, paused"


def test_what_is_not_saved_stands_in_the_line_of_watch_and_in_the_list(paths):
    problem = "4 min (3 attempts): Input/output error"
    write_report(paths, learner_report(not_saved=problem, not_exported="DISK ERROR: policy"))
    line = status_line(Watch(paths).look())
    assert line.startswith(f"NOT SAVED for {problem} | DISK ERROR: policy | ")
    assert state_of(paths, Watch(paths).look()) == "stopped, not saved for 4 min"


def test_a_look_survives_a_disk_that_does_not_answer(paths, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_report(paths, learner_report())
    monkeypatch.setattr(os, "listdir", fail)
    assert Watch(paths).look().checkpoint_bytes == SPARE_BYTES
