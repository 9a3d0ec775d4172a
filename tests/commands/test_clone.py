"""`sac clone`: what it writes, and what it refuses."""

import json

import gin
import numpy as np
import pytest
from commands.test_record import CONFIG, PARAMS, SWINGS

from tfagents_system.commands.clone import clone
from tfagents_system.commands.list_runs import state_of
from tfagents_system.commands.record import record
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.experiment.initial_weights import InitialWeights
from tfagents_system.launch.local.prepare import check_is_no_clone
from tfagents_system.launch.show.status import Watch

NUM_EPISODES = 6


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Arguments of `clone`, with recorded episodes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.py").write_text(PARAMS)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "swings.py").write_text(SWINGS)
    files = {"params": tmp_path / "params.py", "config": tmp_path / "config.json"}
    record(policy=tmp_path / "swings.py", num_episodes=NUM_EPISODES, output=tmp_path / "demos",
           **files)  # fmt: skip
    yield files | {"name": "mine", "steps": 20, "set_": ("train_batch_size=16",)}
    gin.clear_config()


@pytest.fixture
def demos(tmp_path):
    return tmp_path / "demos"


def test_it_shows_both_losses_and_writes_an_experiment(given, demos, tmp_path, capsys):
    capsys.readouterr()
    clone((demos,), **given, held_out=0.4)
    paths = ExperimentPaths(tmp_path / "logs/mine")
    record = json.loads(paths.clone.read_text())
    num_held_out = round(0.4 * NUM_EPISODES)
    first, _, *lines, last = capsys.readouterr().out.splitlines()
    num_learned = NUM_EPISODES - num_held_out
    assert first == f"{num_learned} episodes to learn from, {num_held_out} held out."
    shown = [list(map(float, line.split())) for line in lines]
    assert [row[0] for row in shown] == [*range(2, 20 + 1, 2)]
    saved = [list(row.values()) for row in record["curve"]]
    np.testing.assert_allclose(shown, saved, rtol=1e-4)
    assert (record["demonstrations"], record["held_out"]) == ([str(demos)], num_held_out)
    assert last == ("policy_checkpoint_0000000020 is written. Evaluate it: "
                    "sac eval logs/mine")  # fmt: skip
    assert [path.name for path in paths.policy_checkpoints()] == ["policy_checkpoint_0000000020"]
    assert json.loads(paths.provenance.read_text())["gin_bindings"] == [
        "TrainParams.train_batch_size = 16"
    ]
    assert "train_batch_size = 16" in paths.gin.read_text()
    assert state_of(paths, Watch(paths).look()) == "cloned"
    (checkpoint,) = paths.policy_checkpoints()
    assert InitialWeights.find("logs/mine").checkpoint == checkpoint
    with pytest.raises(ConfigError, match="add --initialize_from .*logs/mine to sac train"):
        check_is_no_clone(paths)


def test_a_seed_repeats_it_and_no_episode_needs_to_be_held_out(given, demos, tmp_path, capsys):
    curves = []
    for name in ("one", "other"):
        clone((demos,), **given | {"name": name, "steps": 3}, held_out=0, seed=7)
        curves.append(json.loads((tmp_path / f"logs/{name}/clone.json").read_text())["curve"])
    assert "6 episodes to learn from, 0 held out." in capsys.readouterr().out
    assert curves[0] == curves[1]
    assert [row["train_step"] for row in curves[0]] == [1, 2, 3]  # as many lines as train steps
    assert {row["held_out_loss"] for row in curves[0]} == {None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a/b"}, "SAC_EXP_NAME is 'a/b'"),
        ({"held_out": 1.0}, "--held_out is 1; expected a number from 0 to below 1"),
        ({"held_out": 0.95}, "--held_out 0.95 of 6 leaves no episode to learn from"),
        ({"config": None}, "Which environment"),
        ({"env": "Pendulum-v1"}, "Which environment"),
        ({"set_": ("time_aware=True",)}, r"observation has shape \[3\], in the environment \[4\]"),
        ({"set_": ("behavioral_cloning=None",)}, "behavioral_cloning, which is for sac train"),
        (
            {"set_": ("algorithm=xqc",)},
            "'xqc'; expected one of .*sac.*: batch normalization",
        ),
        ({"set_": ("TrainParams.demonstrations=a",)}, "demonstrations, which is for sac train"),
        ({"set_": ("train_batch_sise=1",)}, "Did you mean train_batch_size"),
        ({"set_": ("actor_learning_rate=1e38",)}, "The loss is nan at train step"),
    ],
    ids=str,
)
def test_wrong_input_is_refused_and_nothing_is_written(given, demos, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        clone((demos,), **given | changes)
    assert not (tmp_path / "logs").exists() or not any((tmp_path / "logs").iterdir())


def test_there_must_be_demonstrations_and_no_experiment_of_the_name(given, demos, tmp_path):
    with pytest.raises(ConfigError, match="Which demonstrations"):
        clone((), **given)
    with pytest.raises(ConfigError, match="missing: there are no such demonstrations"):
        clone((tmp_path / "missing",), **given)
    (tmp_path / "logs/mine/policies").mkdir(parents=True)
    with pytest.raises(ConfigError, match="logs/mine already exists. Choose another --name"):
        clone((demos,), **given)


def test_a_place_that_cannot_be_written_is_refused_before_training(given, demos, tmp_path, capsys):
    (tmp_path / "logs").touch()
    with pytest.raises(ConfigError, match="^logs/mine cannot be written: Not a directory.$"):
        clone((demos,), **given)
    assert capsys.readouterr().out == ""


def test_a_long_name_is_as_good(given, demos, tmp_path):
    name = "a" * 200  # the most that SAC_EXP_NAME allows
    clone((demos,), **given | {"name": name, "steps": 1})
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [name]


def test_a_user_agent_is_refused(given, demos, tmp_path):
    stock = """
    def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
        from tf_agents.agents.random import random_agent
        return random_agent.RandomAgent(time_step_spec, action_spec, train_step_counter=train_step)
"""
    given["params"].write_text(PARAMS + stock)
    with pytest.raises(ConfigError, match="only built-in agents learn from demonstrations alone"):
        clone((demos,), **given)
