"""Training and policies from Python, with the real programs."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import psutil
import pytest
from run_files import write_run
from system.tiny_run import TINY

import tfagents_system as sac
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.system
PROJECT = pathlib.Path(__file__).parents[2]
SETTINGS = {
    name: eval(value) for name, _, value in (setting.partition("=") for setting in TINY)
} | {"num_iter": 3}  # fmt: skip
PARENT = """
import sys, tfagents_system as sac
run = sac.train(env="gym:Pendulum-v1", name="left", num_iter=100000)
print(run._process.pid, flush=True)
run.wait()
"""


def programs_below(pid):
    with_children = [psutil.Process(pid)]
    return with_children + with_children[0].children(recursive=True)


def test_a_run_is_trained_read_and_its_policy_acts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"env_kwargs": {"g": 9.0}, "horizon": 150, "workers": 1}
    run = sac.train(env="gym:Pendulum-v1", name="tiny", seed=1, **options, **SETTINGS)
    assert run.wait(timeout_secs=240) and not run.is_running
    assert '{"g": 9.0,' in pathlib.Path("tiny_params.py").read_text()
    assert json.loads(pathlib.Path("tiny_config.json").read_text()) == {"horizon": 150}
    experiment = sac.Experiment(run.folder)
    assert experiment.is_finished
    curves = experiment.curves()
    assert list(curves["train_step"]) == [20, 40, 60]
    assert np.isfinite(list(curves["mean_return"])).all()
    policy = sac.load_policy("logs/tiny")
    observation = np.float32([1, 0, 0])
    action = policy(observation)
    assert (action.shape, action.dtype) == ((1,), np.float32) and abs(action[0]) <= 2
    np.testing.assert_array_equal(policy(observation), action)
    np.testing.assert_array_equal(policy([1, 0, 0]), action)
    with pytest.raises(sac.ConfigError, match=r"observation has shape \[4\]; .* shape \[3\]"):
        policy([1, 0, 0, 0])
    with pytest.raises(sac.ConfigError, match="is finished"):
        sac.train(env="gym:Pendulum-v1", name="tiny", seed=1, **SETTINGS).wait()


def test_wrong_input_is_the_sentence_of_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sac.ConfigError, match="num_itr is not a training parameter. Did you mean"):
        sac.train(env="gym:Pendulum-v1", num_itr=3).wait()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(sac.ConfigError, match="nowhere"):
        sac.load_policy(tmp_path / "nowhere")
    with pytest.raises(AttributeError, match="has no attribute 'trane'"):
        sac.trane  # noqa: B018


def test_a_run_that_is_stopped_at_once_has_stopped_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = sac.train(env="gym:Pendulum-v1", name="brief", seed=1, **SETTINGS)
    run.stop()
    assert not run.is_running and run.wait()


def test_nothing_is_left_of_a_run_whose_python_is_killed(tmp_path):
    environ = os.environ | {"PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            pid = int(parent.stdout.readline())
            report = ExperimentPaths(tmp_path / "logs/left").status("learner")
            wait_until(report.exists, 120, "the learner's report")
            programs = programs_below(pid)
        finally:
            parent.kill()
    assert len(programs) > 5
    _, alive = psutil.wait_procs(programs, timeout=120)
    assert alive == []


def test_curves_are_those_of_the_records(tmp_path):
    write_run(tmp_path / "run", [1.0, 3.0])
    curves = sac.Experiment(tmp_path / "run").curves()
    expected = {"train_step": [100, 200], "env_step": [40, 40], "mean_return": [-7, (1 + 3) / 2]}
    assert {name: list(curves[name]) for name in expected} == expected
    assert list(curves["training_secs"]) == [1011 - 990, 1021 - 990]
    assert "success_rate" not in curves
    write_run(tmp_path / "arm", [1.0, 3.0], successes=[1, 0])
    assert list(sac.Experiment(tmp_path / "arm").curves()["success_rate"]) == [0, 1 / 2]
