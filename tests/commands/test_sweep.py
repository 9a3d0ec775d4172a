"""The settings of a sweep's trials."""

import math

import pytest
from commands.test_train import sac
from run_files import write_finished_run

from tfagents_system.commands.trials import (
    Range,
    Study,
    Trial,
    grid_trials,
    parse_grid,
    parse_ranges,
)
from tfagents_system.core.errors import ConfigError


def test_grid_is_all_combinations_in_one_order():
    grid = parse_grid(["train_batch_size=128,256", "matmul_precision=float32",
                       "actor_fc_layer_params=(8, 8),(16,)"])  # fmt: skip
    trials = list(grid_trials(grid))
    assert len(trials) == 2 * 1 * 2
    assert trials[1] == Trial(1, {"train_batch_size": 128, "matmul_precision": "float32",
                                  "actor_fc_layer_params": (16,)})  # fmt: skip
    assert trials[2].assignments == [
        "train_batch_size=256", "matmul_precision='float32'", "actor_fc_layer_params=(8, 8)"
    ]  # fmt: skip


def test_ranges():
    assert parse_ranges(["a=1e-4:0.01:log", "b=1:8"]) == {
        "a": Range(1e-4, 0.01, True), "b": Range(1, 8, False)
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a=1", "a=2:1", "a=0:1:log", "a=x:y", "a=1:2:lin", "a=1:2:log:3"])
def test_wrong_ranges_are_refused(text):
    with pytest.raises(ConfigError, match="allowed is NAME=LOW:HIGH or NAME=LOW:HIGH:log"):
        parse_ranges([text])


def test_a_study_goes_on_where_it_stopped(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    ranges = {"a": Range(1e-3, 1.0, True), "b": Range(1, 4, False)}
    study = Study(tmp_path / "study.log", ranges)
    asked = study.trials(3)
    first, second = next(asked), next(asked)  # the second is interrupted
    study.tell(first, 5.0)

    resumed = Study(tmp_path / "study.log", ranges)
    trials = list(resumed.trials(3))
    assert trials[:2] == [first, second]
    assert [trial.number for trial in trials] == [0, 1, 2]
    for trial in trials:
        assert 1e-3 <= trial.values["a"] <= 1 and trial.values["b"] in (1, 2, 3, 4)
        resumed.tell(trial, math.nan if trial.number == 1 else 1.0)
    assert len(list(Study(tmp_path / "study.log", ranges).trials(3))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --grid or --search. See --help."),
        (["--grid", "train_batch_siz=1,2"], "Did you mean train_batch_size?"),
        (["--grid", "train_batch_size=1,-2"], "train_batch_size"),
        (["--grid", "num_iter=2", "--parallel=9999"], "--parallel is 9999, but there are "),
        (["--search", "num_iter=5:2"], "--search is 'num_iter=5:2'; allowed is "),
    ],
)
def test_wrong_arguments_are_answered_and_write_nothing(tmp_path, arguments, message):
    assert sac(tmp_path, "new", "cart")[0] == 0
    before = sorted(tmp_path.iterdir())
    code, out, err = sac(tmp_path, "sweep", "cart_variables.sh", *arguments)
    assert (code, out) == (78, "") and message in err and len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def finished_trials(folder, values):
    """A project and the trials of a sweep of `--grid discount=...`, as training leaves them."""
    assert sac(folder, "new", "cart")[0] == 0
    files = folder / "cart_params.py", folder / "cart_config.json"
    for number, value in enumerate(values):
        root = folder / "logs" / f"cart_trial_{number}_seed_1"
        write_finished_run(root, *files, [f"TrainParams.discount = {value}"])


@pytest.mark.parametrize(
    ("arguments", "edit", "message"),
    [
        (["--grid", "discount=0.9,0.95"], "",
         "trial_1_seed_1 was trained with other settings: discount was 0.99 and is 0.95 now."),
        (["--grid", "num_iter=2,3"], "",
         "trial_0_seed_1 was trained with other settings: discount was 0.9 and is not set now; "
         "num_iter was not set and is 2 now."),
        (["--grid", "discount=0.9,0.99"], "\n# edited\n", "cart_params.py differs from "),
        (["--search", "discount=0.9:0.95"], "", "discount was 0.9 and is not set now."),
    ],
)  # fmt: skip
def test_results_of_other_settings_are_not_taken_for_those_of_a_sweep(
    tmp_path, arguments, edit, message
):
    if "--search" in arguments:
        pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    finished_trials(tmp_path, [0.9, 0.99])
    with (tmp_path / "cart_params.py").open("a") as params:
        params.write(edit)
    code, out, err = sac(tmp_path, "sweep", "cart_variables.sh", *arguments)
    assert (code, out) == (78, "") and len(err.splitlines()) == 1
    assert message in err and "Choose another --name, or give the settings it has." in err


def test_a_sweep_of_the_same_settings_goes_on(tmp_path):
    finished_trials(tmp_path, [0.9, 0.99])
    sweep = ["sweep", "cart_variables.sh", "--grid", "discount=0.9,0.990"]
    code, out, err = sac(tmp_path, *sweep)  # all are finished; none was evaluated
    assert (code, out, err) == (
        1, "No trial has an evaluation: a score is that of the last one.\n", ""
    )  # fmt: skip


def test_a_study_of_other_ranges_is_refused(tmp_path):
    pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    ranges = parse_ranges(["a=0.5:1", "b=1:4"])
    next(Study(tmp_path / "study.log", ranges).trials(3))
    assert len(Study(tmp_path / "study.log", ranges).earlier_trials()) == 1
    with pytest.raises(ConfigError, match=r"study.log is of another --search: it has a=0.5:1.0, "
                                          r"b=1:4, not a=0.5:2.0, b=1:4. Choose"):  # fmt: skip
        Study(tmp_path / "study.log", parse_ranges(["a=0.5:2", "b=1:4"]))
