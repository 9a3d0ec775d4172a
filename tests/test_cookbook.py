"""The code of docs/cookbook.md does what the page says."""

import pathlib
import re
import types

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import Steps
from tfagents_system.agents.networks import act
from tfagents_system.data.transition import Transition
from tfagents_system.policies.acting import AgentPolicies
from tfagents_system.train_params_base import TrainParamsBase

PAGE = pathlib.Path(__file__).parents[1] / "docs/cookbook.md"
OBSERVATION = tf.TensorSpec([3], tf.float32, "observation")
ACTION = tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1, "action")


def recipe(title):
    """Returns the names that the code of a recipe defines."""
    text = PAGE.read_text()
    code = re.search(r"```python\n(.*?)```", text[text.index(f"**{title}") :], re.DOTALL)
    names = {"TrainParamsBase": TrainParamsBase}  # which a params file imports
    exec(code[1], names)
    return names


def test_own_networks_are_trained_and_act_in_tensorflow():
    names = recipe("Networks of my own")
    params_class = type("TrainParams", (TrainParamsBase,), {
        "env_ctor": None, "actor_ctor": names["actor_ctor"], "critic_ctor": names["critic_ctor"],
    })  # fmt: skip
    params_class.__abstractmethods__ = frozenset()
    params = params_class({"horizon": 10})
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, ACTION, ts.time_step_spec(OBSERVATION)
    )
    before = [variable.numpy() for variable in agent.policy.variables()]
    rows = tf.random.stateless_normal([8, 3], seed=[1, 2])
    loss, _ = agent.train(
        Transition(tf.ones([8]), rows, tf.zeros([8, 2]), tf.ones([8]), tf.ones([8]), rows)
    )
    assert np.isfinite(loss)
    after = [variable.numpy() for variable in agent.policy.variables()]
    assert any(np.any(one != other) for one, other in zip(before, after, strict=True))
    assert AgentPolicies(agent, np.random.default_rng(1)).obstacle is not None
    far = Steps(100 * rows, tf.ones([8]))  # where an unbounded distribution has a large mean
    samples = act(agent.networks.actor, far).sample(100).numpy()
    assert np.abs(samples).max() <= 1


def test_the_callback_writes_a_line_for_each_evaluation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (notebook,) = recipe("Tell me when it is done")["TrainParams"].callbacks(None, "worker")
    for number in (1, 2):
        notebook.on_evaluation(types.SimpleNamespace(mean_return=number))
    text = (tmp_path / "evaluations.txt").read_text()
    assert [line.count("mean_return=") for line in text.splitlines()] == [1, 1]
