import json
import runpy
import shutil
import tempfile

import gin
import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED
from small_disk import small_disk

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.evaluation.evaluator import load_greedy_policy
from tfagents_system.export.policy import export
from tfagents_system.learning.policy_export import PolicyExporter

CONFIG = {"horizon": 20}
PARAMS = """
import tensorflow as tf
from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork
from tfagents_system.environments import gym_adapter
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    actor_fc_layer_params = (8,)
    critic_joint_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return gym_adapter.load("Pendulum-v1", seed=seed)
"""
CUSTOM = """
    def actor_ctor(self, obs_spec, action_spec):
        return ActorDistributionNetwork(obs_spec, action_spec, fc_layer_params=(4,))
"""


def experiment(root, source):
    root.mkdir()
    paths = ExperimentPaths(root)
    paths.params.write_text(source)
    paths.config.write_text(json.dumps(CONFIG))
    params = load_params(paths.params, CONFIG)
    agent, train_step = make_agent(params, params.env_ctor())
    train_step.assign(50)
    PolicyExporter(paths, agent, train_step, UNRIVALLED).export()
    return paths


@pytest.fixture(autouse=True)
def clean_gin():
    yield
    gin.clear_config()


def test_statistics_that_the_environment_learns_are_named(tmp_path, capsys):
    load = 'gym_adapter.load("Pendulum-v1", seed=seed)'
    made = "gym_adapter.GymEnvironment(gym.wrappers.NormalizeObservation(gym.make('Pendulum-v1')))"
    paths = experiment(tmp_path / "pendulum", "import gym" + PARAMS.replace(load, made))
    export(str(paths.root), ("numpy",))
    assert "NOTE: The environment learns statistics while it runs" in capsys.readouterr().err


def test_exports_act_as_the_checkpoint_and_are_replaced(tmp_path, capsys):
    paths = experiment(tmp_path / "pendulum", PARAMS)
    arguments = ["export", f"--exp_dir={paths.root}", "--to=numpy", "--to", "savedmodel",
                 "--to=numpy"]  # fmt: skip
    with_arguments(export, arguments)()
    folder = paths.exports / "policy_checkpoint_0000000050"
    assert capsys.readouterr().out.split() == [str(folder / n) for n in ("numpy", "savedmodel")]
    assert sorted(path.name for path in folder.iterdir()) == ["numpy", "savedmodel"]
    files = ["example.json", "numpy_encoders.py", "numpy_layers.py", "policy.npz", "run_policy.py"]
    assert sorted(path.name for path in (folder / "numpy").iterdir()) == files

    params = load_params(paths.params, CONFIG)
    environment = params.env_ctor()
    greedy = load_greedy_policy(params, environment, paths.policy_checkpoint(50))
    for name in ("numpy", "savedmodel"):
        policy = runpy.run_path(str(folder / name / "run_policy.py"))["Policy"]()
        time_step = environment.reset()
        for _ in range(5):
            expected, _ = greedy.action(time_step, ())
            action = policy.action(time_step.observation)
            np.testing.assert_allclose(action, expected, rtol=0, atol=1e-5)
            time_step = environment.step(action)

    (folder / "numpy" / "stale").touch()
    export(str(paths.root), ("numpy",))
    assert sorted(path.name for path in (folder / "numpy").iterdir()) == files


def test_policy_that_one_format_cannot_hold_leaves_nothing_of_the_others(tmp_path):
    paths = experiment(tmp_path / "custom", PARAMS + CUSTOM)
    with pytest.raises(ConfigError, match="onnx cannot hold this policy: its network is a Actor"):
        export(str(paths.root), ("savedmodel", "onnx"))
    assert not paths.exports.exists()


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    paths = experiment(tmp_path / "pendulum", PARAMS)
    with small_disk(1 << 20) as disk:
        disk.fill()
        with pytest.raises(ConfigError, match="Cannot write the policy to .*No space left on dev"):
            export(str(paths.root), ("numpy",), output=str(disk.folder / "exports"))
        monkeypatch.setattr(tempfile, "tempdir", str(disk.folder))
        with pytest.raises(ConfigError, match="Cannot write the policy to .*No space left on dev"):
            export(str(paths.root), ("savedmodel",))


def test_what_fails_to_be_copied_or_saved_is_told(tmp_path, monkeypatch):
    paths = experiment(tmp_path / "pendulum", PARAMS)

    def fail_to_copy(source, target):
        raise shutil.Error([(source, target, "[Errno 28] No space left on device: 'policy.npz'")])

    def fail_to_save(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(
            None, None, "saved_model.pb; No space left on device"
        )

    monkeypatch.setattr(shutil, "copytree", fail_to_copy)
    with pytest.raises(ConfigError, match=r"to .*: \[Errno 28\] No space left on device: 'policy"):
        export(str(paths.root), ("numpy",))
    monkeypatch.setattr(tf.saved_model, "save", fail_to_save)
    with pytest.raises(ConfigError, match="to .*: saved_model.pb; No space left on device"):
        export(str(paths.root), ("savedmodel",))


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="--to is 'numpi'; expected one of numpy, onnx"):
        with_arguments(export, ["export", "--exp_dir=x", "--to=numpi"])
    with pytest.raises(ConfigError, match="nowhere: no such experiment folder"):
        export(str(tmp_path / "nowhere"), ("numpy",))
    paths = experiment(tmp_path / "pendulum", PARAMS)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Cannot write the policy to .*file"):
        export(str(paths.root), ("numpy",), output=str(tmp_path / "file"))
    own = tmp_path / "mine/numpy/notes.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(ConfigError, match="mine/numpy already exists, and is not an export"):
        export(str(paths.root), ("numpy",), output=str(tmp_path / "mine"))
    assert own.read_text() == "mine"
