"""`sac record` and `sac demonstrations`."""

import json

import gin
import numpy as np
import pytest
from fakes import UNRIVALLED

from tfagents_system.agents.construction import make_agent
from tfagents_system.commands.demonstrations import demonstrations
from tfagents_system.commands.record import record
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.export.policy import export
from tfagents_system.learning.policy_export import PolicyExporter

CONFIG = {"horizon": 20}
PARAMS = """
from tfagents_system.environments import gym_adapter
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    actor_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return gym_adapter.load("Pendulum-v1", seed=seed)
"""
SWINGS = """
class Policy:
    "Pushes in the direction in which the pole turns."

    def action(self, observation):
        return [2.0 if observation[2] > 0 else -2.0]
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """The folder of an experiment with an untrained policy."""
    paths = ExperimentPaths(tmp_path_factory.mktemp("logs"))
    paths.params.write_text(PARAMS)
    paths.config.write_text(json.dumps(CONFIG))
    params = load_params(paths.params, CONFIG)
    agent, train_step = make_agent(params, params.env_ctor())
    PolicyExporter(paths, agent, train_step, UNRIVALLED).export()
    yield paths
    gin.clear_config()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "params.py").write_text(PARAMS)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "swings.py").write_text(SWINGS)
    return {"params": tmp_path / "params.py", "config": tmp_path / "config.json"}


def test_episodes_of_the_greedy_policy_are_those_of_its_export(experiment, tmp_path, capsys):
    record(experiment.root, num_episodes=2, output=tmp_path / "ours", seed=3)
    lines = capsys.readouterr().out.splitlines()
    export(str(experiment.root), ("numpy",), output=str(tmp_path / "export"))
    given = {"params": experiment.params, "config": experiment.config, "seed": 3}
    policy = tmp_path / "export/numpy"
    record(policy=policy, num_episodes=2, output=tmp_path / "theirs", **given)
    ours, theirs = (read_demonstrations(tmp_path / name) for name in ("ours", "theirs"))
    assert [episode.length for episode in ours] == [20, 20]
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.actions["action"], other.actions["action"], atol=1e-5)
        np.testing.assert_allclose(mine.rewards, other.rewards, atol=1e-4)
        assert (mine.end, mine.spec) == ("truncated", other.spec)  # by the horizon
    first = ours[0]
    assert lines[0] == (
        f"{tmp_path / 'ours/episode_000000.npz'}  return {first.rewards.astype(float).sum():.6g}, "
        "20 env steps"
    )
    record(experiment.root, num_episodes=1, output=tmp_path / "ours", seed=4)
    assert len(read_demonstrations(tmp_path / "ours")) == 3  # what is there stays


def test_a_python_file_may_be_the_policy(files, tmp_path, capsys):
    record(policy=tmp_path / "swings.py", num_episodes=1, output=tmp_path / "demos", **files)
    (episode,) = read_demonstrations(tmp_path / "demos")
    velocity = episode.observations["observation"][:-1, 2]
    expected = np.where(velocity > 0, 2.0, -2.0)
    np.testing.assert_array_equal(episode.actions["action"][:, 0], expected)
    capsys.readouterr()
    assert demonstrations("show", tmp_path / "demos") == 0
    shown = capsys.readouterr().out.splitlines()
    total = float(episode.rewards.sum())
    assert shown == [
        f"{tmp_path / 'demos'}: 1 episodes, 20 env steps",
        f"  return  mean {total:.6g}, from {total:.6g} to {total:.6g}",
        "  length  mean 20, from 20 to 20",
        "  end     1 truncated",
        "  action  float32 [1]",
        "  observation  float32 [3]",
        "  reward  float32 []",
    ]


LIMITED = """
import gymnasium
import numpy as np
from tfagents_system.environments import gymnasium_adapter
from tfagents_system.train_params_base import TrainParamsBase

class Limiter(gymnasium.Wrapper):
    "Takes half of each action, but in every third env step."

    def reset(self, **kwargs):
        self.num_steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        taken = action if self.num_steps % 3 == 0 else np.float32(action / 2)
        observation, reward, terminated, truncated, info = self.env.step(taken)
        reported = {} if self.num_steps % 3 == 0 else {"action": taken}
        return observation, reward, terminated, truncated, info | reported

class TrainParams(TrainParamsBase):
    def env_ctor(self, *args, seed=None, **kwargs):
        return Limiter(gymnasium.make("Pendulum-v1", render_mode="rgb_array"))
"""


def test_actions_are_those_that_were_taken(files, tmp_path):
    files["params"].write_text(LIMITED)
    record(policy=tmp_path / "swings.py", num_episodes=2, output=tmp_path / "demos", **files)
    for episode in read_demonstrations(tmp_path / "demos"):
        sizes = np.abs(episode.actions["action"][:, 0])
        np.testing.assert_array_equal(sizes, ([2 / 2, 2 / 2, 2] * 7)[:20])


def test_a_check_names_what_does_not_fit(files, tmp_path, capsys):
    output = tmp_path / "demos"
    record(policy=tmp_path / "swings.py", num_episodes=1, output=output, **files)
    assert demonstrations("check", output, **files) == 0
    assert capsys.readouterr().out.endswith("The demonstrations fit: 1 episodes, 20 env steps.\n")
    assert demonstrations("check", output, **files, set_=("time_aware=True",)) == EXIT_CONFIG
    file = output / "episode_000000.npz"
    assert capsys.readouterr().out.splitlines() == [
        f"WRONG  {file}: observation has shape [3], in the environment [4].",
        "The demonstrations do not fit. Record them with the environment that is trained.",
    ]
    files["config"].write_text(json.dumps({"horizon": 19}))
    assert demonstrations("check", output, **files) == 0
    expected = f"note   {file}: it has 20 env steps, more than the horizon, 19."
    assert capsys.readouterr().out.splitlines()[0] == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1", "defines no class Policy"),
        ("class Policy: pass", "has no method action"),
        (
            "class Policy:\n    def action(self, o): return [1, 2]",
            r"returned the action \[1, 2\]; expected .* shapes: {'action': 'float32 \[1\]'}",
        ),
    ],
)
def test_a_file_without_a_usable_policy_is_refused(text, message, files, tmp_path):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        record(policy=tmp_path / "bad.py", output=tmp_path / "demos", **files)


def test_contradictory_arguments_are_refused(experiment, tmp_path):
    with pytest.raises(ConfigError, match="Whose episodes"):
        record(env="Pendulum-v1")
    with pytest.raises(ConfigError, match="has its own environment"):
        record(experiment.root, env="Pendulum-v1")
    with pytest.raises(ConfigError, match="is not a policy"):
        record(experiment.root, policy=tmp_path / "missing.py")
    with pytest.raises(ConfigError, match="leave one of them out"):
        record(experiment.root, policy=tmp_path / "missing.py", checkpoint="best")
    with pytest.raises(ConfigError, match="Which environment"):
        record(policy=tmp_path / "missing.py", env="Pendulum-v1", config=experiment.config)
