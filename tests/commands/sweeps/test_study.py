"""Trials from Optuna, their scores, and pruning."""

import math

import pytest

from tfagents_system.commands.sweeps.study import Study
from tfagents_system.commands.sweeps.trials import Range, parse_ranges
from tfagents_system.core.errors import ConfigError

RANGES = {"a": Range(1e-3, 1.0, True), "b": Range(1, 4, False)}


def test_a_study_goes_on_where_it_stopped(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    study = Study(tmp_path / "study.log", RANGES)
    asked = study.trials(3)
    first, second = next(asked), next(asked)  # the second is interrupted
    study.tell(first, 5.0)

    resumed = Study(tmp_path / "study.log", RANGES)
    trials = list(resumed.trials(3))
    assert trials[:2] == [first, second]
    assert [trial.number for trial in trials] == [0, 1, 2]
    for trial in trials:
        assert 1e-3 <= trial.values["a"] <= 1 and trial.values["b"] in (1, 2, 3, 4)
        resumed.tell(trial, math.nan if trial.number == 1 else 1.0)
    assert len(list(Study(tmp_path / "study.log", RANGES).trials(3))) == 3


def test_trials_after_a_stop_are_new_ones(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    for count in (3, 3 + 3):  # the first ten are drawn at random
        trials = list(Study(tmp_path / "study.log", RANGES).trials(count))
    assert len({trial.values["a"] for trial in trials}) == 3 + 3


def test_a_study_goes_on_after_a_full_disk_has_cut_a_line(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    log = tmp_path / "study.log"
    first = list(Study(log, RANGES).trials(2))
    with log.open("ab") as file:
        file.write(log.read_bytes().splitlines()[-1][:30])
    for count in (3, 4):
        trials = list(Study(log, RANGES).trials(count))
        assert len(trials) == count and trials[:2] == first


@pytest.mark.parametrize("num_values", [0, 1])
def test_a_trial_that_a_kill_has_left_without_some_values_is_left_out(tmp_path, num_values):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    log = tmp_path / "study.log"
    asked = Study(log, RANGES).trials(2)
    first = next(asked)
    num_lines = len(log.read_bytes().splitlines()) + 1 + num_values  # a line for the trial itself
    next(asked)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:num_lines]))
    for _ in range(2):
        study = Study(log, RANGES)
        trials = list(study.trials(3))
        assert [trial.number for trial in trials] == [0, 2, 3] and study.num_asked == 4
        assert trials[0] == first and all(trial.values.keys() == RANGES.keys() for trial in trials)


def test_a_study_of_other_ranges_is_refused(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    ranges = parse_ranges(["a=0.5:1", "b=1:4"])
    next(Study(tmp_path / "study.log", ranges).trials(3))
    assert len(Study(tmp_path / "study.log", ranges).earlier_trials()) == 1
    with pytest.raises(ConfigError, match=r"study.log is of another --search: it has a=0.5:1.0, "
                                          r"b=1:4, not a=0.5:2.0, b=1:4. Choose"):  # fmt: skip
        Study(tmp_path / "study.log", parse_ranges(["a=0.5:2", "b=1:4"]))


def test_a_trial_below_the_median_of_five_completed_ones_is_pruned(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    study = Study(tmp_path / "study.log", {"a": Range(0.0, 1.0, False)})
    *completed, bad, good = study.trials(7)
    for number, trial in enumerate(completed):  # medians of their evaluations: 2, then 12
        assert not study.falls_behind(trial, [number])
        assert not study.falls_behind(trial, [number, 10 + number])
        study.tell(trial, 10.0 + number)
    assert not study.falls_behind(bad, [2.5])
    assert not study.falls_behind(bad, [2.5])  # nothing new
    assert not study.falls_behind(good, [0, 13][:0])
    assert study.falls_behind(bad, [2.5, 11.5])
    assert study.falls_behind(good, [1.9])  # its only evaluation
    study.tell(bad, None)

    again = Study(tmp_path / "study.log", {"a": Range(0.0, 1.0, False)})
    assert again.is_pruned(bad) and not again.is_pruned(good)
    assert not again.falls_behind(bad, [2.5, 11.5, 0.0])
    again.tell(bad, 99.0)  # too late
    assert again.is_pruned(bad)
