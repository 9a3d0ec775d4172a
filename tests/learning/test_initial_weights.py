import shutil

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_fakes import FakeReplay, train
from fakes import UNRIVALLED
from replay_fakes import make_tiny_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.generations import generation_dir
from tfagents_system.learning.checkpoints import Checkpointer
from tfagents_system.learning.initial_weights import initialize
from tfagents_system.learning.policy_export import write_policy
from tfagents_system.train_params_base import TrainParamsBase


@pytest.fixture
def trained(tmp_path):
    """An agent after two train steps, and its checkpoint as an experiment keeps it."""
    agent, train_step = make_tiny_agent()
    train(agent, 2)
    root = tmp_path / "checkpoints"
    replay = FakeReplay(root / ".reverb")
    saving = Checkpointer(root, agent, train_step, replay, {}, "float32", UNRIVALLED)
    saving.save()
    assert saving.wait(10)
    return agent, generation_dir(root, 2)


def weights_of(agent):
    networks = [agent.networks.actor, *agent.networks.critics, *agent.networks.target_critics]
    variables = [variable for network in networks for variable in network.variables]
    return [variable.numpy() for variable in (*variables, agent.temperature.log_alpha)]


def moments_of(agent):
    optimizers = (agent.actor_optimizer, agent.critic_optimizer, agent.temperature.optimizer)
    return [variable.numpy() for optimizer in optimizers for variable in optimizer.variables()]


def test_networks_and_alpha_come_from_the_checkpoint_optimizers_and_counters_do_not(trained):
    other, generation = trained
    agent, train_step = make_tiny_agent()
    text = initialize(agent, generation)
    assert "All networks and the temperature start" in text
    for value, expected in zip(weights_of(agent), weights_of(other), strict=True):
        np.testing.assert_array_equal(value, expected)
    assert int(train_step) == 0
    assert all((moment == 0).all() for moment in moments_of(agent))
    train(agent, 1)
    assert [int(value) for value in moments_of(agent) if value.dtype == np.int64] == [1] * 3


def test_a_policy_gives_the_actor_alone(trained, tmp_path):
    other, _ = trained
    write_policy(tmp_path / "policy", other.policy.variables())
    agent, _ = make_tiny_agent()
    critics = [variable.numpy() for variable in agent.networks.critics[0].variables]
    assert "The actor starts" in initialize(agent, tmp_path / "policy")
    for value, expected in zip(
        agent.networks.actor.variables, other.networks.actor.variables, strict=True
    ):
        np.testing.assert_array_equal(value, expected)
    for value, expected in zip(agent.networks.critics[0].variables, critics, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_weights_of_other_networks_are_refused_by_name(trained):
    _, generation = trained
    agent, _ = make_tiny_agent(critic_joint_fc_layer_params=(5,))
    before = weights_of(agent)
    with pytest.raises(ConfigError, match=r"networks: \S*Critic\S* is \[4\] there and \[5\]"):
        initialize(agent, generation)
    for value, expected in zip(weights_of(agent), before, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_weights_that_went_missing_are_an_error(trained):
    _, generation = trained
    shutil.rmtree(generation / "learner")
    with pytest.raises(ConfigError, match="cannot be read"):
        initialize(make_tiny_agent()[0], generation)


class Td3(TrainParamsBase):
    algorithm = "td3"
    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)
    env_ctor = None


Td3.__abstractmethods__ = frozenset()


def test_target_networks_follow_the_policy_that_a_run_starts_from(tmp_path):
    spec = tf.TensorSpec([2], tf.float32)
    action = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)
    other, agent = (
        Td3({"horizon": 10}).agent_ctor(
            tf.Variable(0, dtype=tf.int64), spec, action, ts.time_step_spec(spec)
        )
        for _ in range(2)
    )
    write_policy(tmp_path / "policy", other.policy.variables())
    initialize(agent, tmp_path / "policy")
    networks = agent.networks
    for network in (networks.actor, networks.target_actor):
        for value, expected in zip(network.variables, other.networks.actor.variables, strict=True):
            np.testing.assert_array_equal(value, expected)
