"""The queue of experiments: order, failures, stops, pruning."""

import io
import os
import pathlib
import signal
import threading

import pytest
from commands.sweeps.fake_training import SLOT, make_task

from tfagents_system.commands.sweeps.progress import Progress
from tfagents_system.commands.sweeps.runs import ParallelRuns
from tfagents_system.commands.sweeps.schedule import Schedule
from tfagents_system.commands.sweeps.task_sweep import TaskSweep
from tfagents_system.commands.sweeps.trials import grid_trials
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.file_locks import open_lock, try_lock
from tfagents_system.core.waiting import wait_until
from tfagents_system.terminal.lines import Terminal

GRID = list(grid_trials({"discount": [0.9, 0.95, 0.99]}))


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty current folder; restores the handlers of signals."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(*sweeps, num_slots=1, total=6, prunes=False):
    """Returns (runs, the lines that were printed)."""
    output, runs = io.StringIO(), ParallelRuns([SLOT] * num_slots)
    Schedule(sweeps, runs, Progress(total), Terminal(output), prunes).run()
    return runs, output.getvalue().splitlines()


def tape():
    return pathlib.Path("tape").read_text().splitlines()


def states(sweep):
    return [(result.trial.number, result.state, result.returns) for result in sweep.results()]


def test_all_seeds_of_a_trial_are_trained_before_the_next_and_the_best_is_first():
    sweep = TaskSweep(make_task(seeds=(1, 2)), iter(GRID[:2]), None)
    _, lines = run(sweep, total=4)
    names = [f"arm_trial_{trial}_seed_{seed}" for trial in (0, 1) for seed in (1, 2)]
    assert tape() == names
    assert states(sweep) == [(0, "finished", [-100.0, -200.0]), (1, "finished", [-200.0, -300.0])]
    assert lines[0] == f"{names[0]}: logs/arm_sweep/{names[0]}.log"
    assert lines[1] == f"logs/{names[0]} finished | 1 of 4 experiments"
    assert lines[-1] == f"logs/{names[3]} finished | 4 of 4 experiments"


def test_an_experiment_that_fails_is_named_and_is_tried_again_by_the_next_start():
    pathlib.Path("fail_arm_trial_1_seed_1").touch()
    sweep = TaskSweep(make_task(), iter(GRID), None)
    _, lines = run(sweep, num_slots=2, total=3)
    assert sweep.failed == ["arm_trial_1_seed_1"]
    (failure,) = [line for line in lines if "failed (" in line]
    assert failure.startswith(
        "logs/arm_trial_1_seed_1 failed (exit code 1, see logs/arm_sweep/arm_trial_1_seed_1.log): "
        "no such leg | "
    )
    assert lines[-1].endswith("3 of 3 experiments, 1 failed")
    assert [state[:2] for state in states(sweep)] == [
        (0, "finished"),
        (2, "finished"),
        (1, "failed"),
    ]

    pathlib.Path("fail_arm_trial_1_seed_1").unlink()
    again = TaskSweep(make_task(), iter(GRID), None)
    _, lines = run(again, total=3)
    assert tape()[3:] == ["arm_trial_1_seed_1"] and len(lines) == 2
    assert lines[-1] == "logs/arm_trial_1_seed_1 finished | 2 of 3 experiments"
    assert [number for number, _, _ in states(again)] == [0, 1, 2]


def test_a_signal_stops_what_runs_and_the_next_start_goes_on_there():
    hang = pathlib.Path("hang_arm_trial_1_seed_1")
    hang.touch()

    def interrupt():
        wait_until(pathlib.Path("hangs").exists, 60, "the second experiment")
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    sweep = TaskSweep(make_task(), iter(GRID), None)
    runs, _ = run(sweep, total=3)
    thread.join()
    assert runs.is_stopped and sweep.failed == []
    assert states(sweep) == [(0, "finished", [-100.0]), (1, "unfinished", [])]

    hang.unlink()
    again = TaskSweep(make_task(), iter(GRID), None)
    runs, _ = run(again, total=3)
    assert not runs.is_stopped
    assert tape() == [f"arm_trial_{k}_seed_1" for k in (0, 1, 1, 2)]
    assert states(again) == [(k, "finished", [-100.0 * (k + 1)]) for k in (0, 1, 2)]


def test_two_tasks_are_swept_one_after_another():
    sweeps = [TaskSweep(make_task(name=name), iter(GRID[:2]), None) for name in ("arm", "leg")]
    run(*sweeps, total=4)
    assert tape() == [f"{name}_trial_{k}_seed_1" for name in ("arm", "leg") for k in (0, 1)]
    assert [len(states(sweep)) for sweep in sweeps] == [2, 2]


def test_an_experiment_that_still_runs_after_a_kill_of_the_sweep_is_awaited():
    lock = pathlib.Path("logs/arm_trial_0_seed_1/lock")
    lock.parent.mkdir(parents=True)
    descriptor = open_lock(lock)
    assert try_lock(descriptor)
    lines = []

    class Tape(io.StringIO):
        def write(self, text):
            lines.append(text)
            if "is running: waiting" in text:
                os.close(descriptor)  # its end
            return len(text)

    sweep = TaskSweep(make_task(), iter(GRID[:1]), None)
    Schedule([sweep], ParallelRuns([SLOT]), Progress(1), Terminal(Tape()), False).run()
    assert lines[0] == "logs/arm_trial_0_seed_1 is running: waiting for its end."
    assert states(sweep) == [(0, "finished", [-100.0])]


def test_no_trial_starts_with_other_files_than_those_before_it():
    params = pathlib.Path("params.py")
    params.write_text("a = 1")

    class Editor(io.StringIO):
        def write(self, text):
            if "arm_trial_0_seed_1: " in text:  # it begins
                params.write_text("a = 2")
            return len(text)

    task = make_task(files={params: b"a = 1"})
    sweep = TaskSweep(task, iter(GRID), None)
    with pytest.raises(ConfigError, match="params.py has changed since the sweep arm started, so "):
        Schedule([sweep], ParallelRuns([SLOT]), Progress(3), Terminal(Editor()), False).run()
    assert tape() == ["arm_trial_0_seed_1"] and states(sweep) == [(0, "finished", [-100.0])]
    params.unlink()
    with pytest.raises(ConfigError, match="params.py has changed"):
        task.check_files()


class FakeStudy:
    """Prunes the trials of some numbers as soon as they have an evaluation."""

    def __init__(self, numbers):
        self.numbers, self.told = numbers, {}

    def falls_behind(self, trial, returns):
        return trial.number in self.numbers

    def tell(self, trial, score):
        self.told.setdefault(trial.number, score)

    def is_pruned(self, trial):
        return trial.number in self.told and self.told[trial.number] is None


def test_a_pruned_trial_is_stopped_marked_and_not_resumed():
    pathlib.Path("hang_arm_trial_1_seed_1").touch()
    study = FakeStudy([1])
    sweep = TaskSweep(make_task(seeds=(1, 2)), iter(GRID), study)
    schedule_lines = run(sweep, prunes=True)[1]
    assert study.told == {0: -150.0, 1: None, 2: (-300.0 - 400.0) / 2}
    assert tape() == [
        f"arm_trial_{k}_seed_{s}" for k, s in ((0, 1), (0, 2), (1, 1), (2, 1), (2, 2))
    ]
    assert [state[:2] for state in states(sweep)] == [
        (0, "finished"), (2, "finished"), (1, "pruned")
    ]  # fmt: skip
    assert any(line.startswith("Trial 1 is pruned: ") for line in schedule_lines)
    assert sweep.failed == []

    again = TaskSweep(make_task(seeds=(1, 2)), iter(GRID), study)
    run(again, prunes=True)
    assert len(tape()) == 5 and states(again) == states(sweep)


def test_an_error_stops_the_experiments_that_run(monkeypatch):
    sweep = TaskSweep(make_task(seeds=(1,)), iter(GRID[:1]), None)
    runs = ParallelRuns([SLOT])
    stopped = []
    monkeypatch.setattr(
        runs, "stop_all", lambda: stopped.append([e.name for e in runs.experiments])
    )

    def fail(line):
        raise BrokenPipeError

    terminal = Terminal(io.StringIO())
    monkeypatch.setattr(terminal, "show", fail)
    with pytest.raises(BrokenPipeError):
        Schedule([sweep], runs, Progress(1), terminal, False).run()
    assert stopped == [["arm_trial_0_seed_1"]]
    for run in runs._runs:
        run.process.wait(60)
