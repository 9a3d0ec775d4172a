import json
import os
import pathlib
import subprocess
import sys

import pytest
from fakes import UNRIVALLED
from report_fakes import learner_report, write_report

from tfagents_system.core.state.best_policies import EvaluatedPolicy, add_best_policy
from tfagents_system.core.state.generations import publish_generation
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.show.ending import ending

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def paths(tmp_path, monkeypatch):
    (tmp_path / "arm").mkdir()
    monkeypatch.chdir(tmp_path)
    return ExperimentPaths(pathlib.Path("arm"))


def finish(paths, **facts):
    paths.finished.write_text(json.dumps({"train_step": 8_000, "num_iter": 40} | facts))


def keep_best(paths, train_step):
    unfinished = paths.best_policies / ".unfinished"
    unfinished.mkdir(parents=True)
    best = EvaluatedPolicy(
        paths.best_policies / "policy", train_step // 200, train_step, -1234.5, 5
    )
    add_best_policy(paths, unfinished, best)


@pytest.mark.parametrize("has_best", [False, True])
def test_a_finished_run_says_where_its_policy_is_and_how_to_see_it(paths, has_best, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(pathlib.Path.cwd() / ".venv/bin/python"))
    finish(paths)
    if has_best:
        keep_best(paths, 8_000)  # it is the last one
    assert ending(paths) == (
        "Training is finished. The policy is in arm/policies/greedy_policy. To see it:\n"
        "  .venv/bin/python -m tfagents_system eval arm --num_episodes 5"
    )


@pytest.mark.parametrize("trained_by", ["finished", "clone"])
def test_the_command_can_be_pasted_whatever_the_folder_is_called(tmp_path, trained_by):
    paths = ExperimentPaths(tmp_path / "my arm")
    paths.root.mkdir()
    getattr(paths, trained_by).write_text("{}")
    assert f" eval '{paths.root}'" in ending(paths)


def test_a_better_policy_than_the_last_is_named(paths):
    finish(paths)
    keep_best(paths, 6_000)
    assert ending(paths).splitlines()[2:] == [
        "The best evaluation returned -1,234.5, after iteration 30; --checkpoint best shows that "
        "policy."
    ]


def test_ending_says_why_training_ended_early(paths):
    finish(paths, num_iter=1000, iteration=240, stopped_because="time >= 2h")
    assert ending(paths).startswith(
        "Training is finished, after 240 of 1000 iterations, because time >= 2h. The policy is in "
    )


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", '{"train_step": "8"}'])
def test_a_damaged_record_of_the_end_costs_only_what_it_says(paths, content):
    paths.finished.write_text(content)
    keep_best(paths, 6_000)
    assert ending(paths).splitlines()[1:] == [
        f"  {sys.executable} -m tfagents_system eval arm --num_episodes 5"
    ]


def test_ending_of_a_clone_says_how_to_see_it(paths):
    paths.clone.write_text("{}")
    assert ending(paths) == "sac clone has trained it. Evaluate it: sac eval arm"


def test_ending_says_from_where_the_next_start_goes_on_and_what_it_lacks(paths):
    write_report(paths, learner_report(train_step=6_000))
    begin = "Nothing is running, and training is not finished: the command that started it "
    lost = "; 6,000 train steps more were not saved."
    assert ending(paths) == f"{begin}starts again from nothing{lost}"
    for train_step, rest in ((5_500, "; 500 train steps more were not saved."), (6_000, ".")):
        unfinished = paths.checkpoints / f".tmp-{train_step}"
        unfinished.mkdir(parents=True)
        publish_generation(unfinished, paths.checkpoints, train_step, {}, UNRIVALLED)
        goes_on = f"resumes from the checkpoint at train step {train_step:,}"
        assert ending(paths) == f"{begin}{goes_on}{rest}"


def test_the_program_of_the_script_prints_it(paths):
    finish(paths)
    command = [sys.executable, "-m", "tfagents_system.launch.show.ending", "arm"]
    environ = os.environ | {"SERVICE_WORKING_DIR": os.getcwd()}
    printed = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert (printed.stdout, printed.stderr) == (f"{ending(paths)}\n", "")
