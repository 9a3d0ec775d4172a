"""The progress line of a sweep."""

import pytest
from commands.sweeps.fake_training import make_task
from fakes import FakeClock
from report_fakes import learner_report, write_report

from tfagents_system.commands.sweeps.experiments import Experiment
from tfagents_system.commands.sweeps.progress import Progress
from tfagents_system.commands.sweeps.trials import Trial


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return [Experiment(make_task(), Trial(number, {}), 1) for number in range(4)]


def report(experiment, share, rate=200.0):
    experiment.paths.root.mkdir(parents=True, exist_ok=True)
    write_report(experiment.paths, learner_report(
        train_step=round(1000 * share), total_train_steps=1000, train_steps_per_sec=rate
    ))  # fmt: skip


def test_time_left_follows_from_what_this_start_has_trained(experiments):
    clock = FakeClock()
    progress = Progress(4, clock)
    assert progress.line([]) == "0 of 4 experiments"
    progress.skip()  # finished earlier
    report(experiments[1], 0.5)  # half done earlier
    progress.begin(experiments[1])
    progress.begin(experiments[2])
    assert progress.line(experiments[1:3]) == (
        "1 of 4 experiments | 200 train steps/s | arm_trial_1_seed_1 50% | arm_trial_2_seed_1 0%"
    )
    clock.sleep(60)
    report(experiments[1], 0.75)
    report(experiments[2], 0.25, rate=100.0)
    left = 60 * (0.25 + 0.75 + 1) / (0.25 + 0.25)
    assert left == 4 * 60
    assert progress.line(experiments[1:3]) == (
        "1 of 4 experiments | 4 min left | 300 train steps/s | "
        "arm_trial_1_seed_1 75% | arm_trial_2_seed_1 25%"
    )
    report(experiments[1], 1.0)
    progress.end(experiments[1], has_failed=False)
    left = 60 * (0.75 + 1) / (0.5 + 0.25)
    assert left == 140
    line = progress.line(experiments[2:3])
    assert line.startswith("2 of 4 experiments | 2 min 20 s left | ")


def test_a_failure_counts_as_ended_but_not_as_trained(experiments):
    clock = FakeClock()
    progress = Progress(2, clock)
    progress.begin(experiments[0])
    clock.sleep(10)
    progress.end(experiments[0], has_failed=True)
    assert progress.line([]) == "1 of 2 experiments, 1 failed"
