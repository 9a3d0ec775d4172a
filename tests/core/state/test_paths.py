import os
import pathlib
import re
import tempfile

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment, is_experiment

PATHS = ExperimentPaths(pathlib.Path("logs/walk"))


def test_published_layout():
    expected = {
        "config": "config.json",
        "params": "params.py",
        "running_config": "running/config.json",
        "running_params": "running/params.py",
        "gin": "gin.txt",
        "provenance": "provenance.json",
        "lock": "lock",
        "policies": "policies",
        "checkpoints": "checkpoints",
        "episodes": "episodes",
        "videos": "videos",
        "mirrors": "mirror",
        "train_summaries": "train",
        "eval_summaries": "eval",
        "services": "service",
    }
    actual = {name: getattr(PATHS, name) for name in expected}
    assert actual == {name: pathlib.Path("logs/walk") / path for name, path in expected.items()}
    assert PATHS.stdout("learner") == pathlib.Path("logs/walk/stdout/learner.log")
    assert PATHS.status("worker_3") == pathlib.Path("logs/walk/status/worker_3.json")


def test_policy_checkpoint_has_ten_digits():
    assert PATHS.policy_checkpoint(500_000) == pathlib.Path(
        "logs/walk/policies/checkpoints/policy_checkpoint_0000500000"
    )


def test_policy_checkpoints_are_the_complete_ones_oldest_first(tmp_path):
    paths = ExperimentPaths(tmp_path)
    assert paths.policy_checkpoints() == []
    steps = [2_000, 10_000, 500]
    for step in steps:
        paths.policy_checkpoint(step).mkdir(parents=True)
    folder = tmp_path / "policies" / "checkpoints"
    (folder / ".tmp-policy_checkpoint_0000000900").mkdir()  # being written
    (folder / "policy_checkpoint_best").mkdir()  # a user's copy
    assert paths.policy_checkpoints() == [paths.policy_checkpoint(step) for step in sorted(steps)]


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.from_regex(r"(policy_checkpoint_)?\w{1,20}", fullmatch=True))
@hypothesis.example("policy_checkpoint_\N{SUPERSCRIPT TWO}")
@hypothesis.settings(max_examples=200)
def test_a_folder_of_any_other_name_is_no_policy_checkpoint(name):
    with tempfile.TemporaryDirectory() as folder:
        paths = ExperimentPaths(pathlib.Path(folder))
        paths.policy_checkpoint(50).mkdir(parents=True)
        stray = paths.policy_checkpoint(50).with_name(name)
        stray.mkdir(exist_ok=True)
        is_checkpoint = bool(re.fullmatch("policy_checkpoint_[0-9]+", name, re.ASCII))
        assert (stray in paths.policy_checkpoints()) == is_checkpoint


def test_a_folder_that_holds_experiments_is_none_itself(tmp_path):
    with pytest.raises(ConfigError, match="is not the folder of an experiment.$"):
        existing_experiment(tmp_path)
    (tmp_path / "a" / "episodes").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"is not the .* It holds {tmp_path}/a$"):
        existing_experiment(tmp_path)
    (tmp_path / "b" / "running").mkdir(parents=True)
    assert not is_experiment(tmp_path / "b")
    (tmp_path / "b" / "provenance.json").touch()
    with pytest.raises(ConfigError, match=f"holds {tmp_path}/a and 1 more: sac list {tmp_path}$"):
        existing_experiment(tmp_path)
    assert existing_experiment(tmp_path / "a").root == tmp_path / "a"


def test_a_folder_that_cannot_be_read_is_refused_for_that_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(ConfigError, match=f"^{tmp_path} cannot be read: Permission denied.$"):
        existing_experiment(tmp_path)
