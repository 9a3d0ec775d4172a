"""Agents of discrete actions: a train step by hand, and what does not fit them."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.train_params_base import TrainParamsBase

GAMMA, ALPHA = 0.9, 0.5
OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ONE = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "action")  # 3, 4 or 5
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 0], [1, 2], "action")


class Params(TrainParamsBase):
    discount = GAMMA
    sac_log_alpha = float(np.log(ALPHA))
    actor_fc_layer_params = ()
    critic_joint_fc_layer_params = ()

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("the specs are given")


def make_agent(action_spec, **settings):
    params = Params({"horizon": 10})
    for name, value in settings.items():
        setattr(params, name, value)
    return params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec, ts.time_step_spec(OBSERVATION)
    )


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def minibatch(action, dtype):
    return Transition(
        tf.ones([2]), tf.constant([[1.0, 2.0], [-1.0, 0.5]]), tf.constant(action, dtype),
        tf.constant([1.0, -2.0]), tf.constant([1.0, 0.0]), tf.constant([[0.5, -1.0], [2.0, 2.0]]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "sizes", "action"),
    [(ONE, [3], [4, 5]), (BRANCHES, [2, 3], [[1, 0], [0, 2]])],
    ids=["one", "branches"],
)
def test_losses_by_hand(spec, sizes, action):
    agent = make_agent(spec)
    rng, num = np.random.default_rng(1), sum(sizes)
    networks = agent.networks
    layers = [networks.actor.head.projection]
    layers += [net.value_layer for net in (*networks.critics, *networks.target_critics)]
    kernels = rng.normal(size=(5, 2, num))
    for layer, kernel in zip(layers, kernels, strict=True):
        layer.set_weights([kernel, np.zeros(num)])
    batch = minibatch(action, spec.dtype)
    _, info = agent.train(batch)

    ends = np.cumsum(sizes)

    def value(state, critics):
        """The mean over branches of sum_a pi(a) (min Q(a) - alpha log pi(a)), and the entropy."""
        q = np.minimum(*(state @ kernels[k] for k in critics))
        soft = entropy = 0.0
        for start, end in zip(ends - sizes, ends, strict=True):
            pi = softmax((state @ kernels[0])[start:end])
            soft += (pi * (q[start:end] - ALPHA * np.log(pi))).sum() / len(sizes)
            entropy -= (pi * np.log(pi)).sum() / len(sizes)
        return soft, entropy

    states, next_states = batch.observation.numpy(), batch.next_observation.numpy()
    expected = 0.0
    for row in range(2):
        target = batch.reward.numpy()[row]
        target += GAMMA * batch.discount.numpy()[row] * value(next_states[row], (3, 4))[0]
        choice = np.atleast_1d(action[row]) - np.atleast_1d(
            np.broadcast_to(spec.minimum, spec.shape)
        )
        for critic in (1, 2):
            q = (states[row] @ kernels[critic])[ends - sizes + choice].mean()
            expected += 0.5 * (q - target) ** 2 / 2
    of_states = [value(state, (1, 2)) for state in states]
    np.testing.assert_allclose(info["critic_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(
        info["actor_loss"], -np.mean([soft for soft, _ in of_states]), rtol=1e-4
    )
    np.testing.assert_allclose(
        info["entropy"], np.mean([entropy for _, entropy in of_states]), rtol=1e-4
    )


@pytest.mark.parametrize("spec", [ONE, BRANCHES], ids=["one", "branches"])
def test_it_learns_which_action_is_rewarded(spec):
    tf.random.set_seed(1)
    agent = make_agent(
        spec, discount=0.0, sac_log_alpha=-3.0, actor_learning_rate=0.03, critic_learning_rate=0.03
    )
    train, rng = tf.function(agent.train, autograph=False), np.random.default_rng(1)
    best = np.asarray(spec.maximum)
    for _ in range(300):
        action = rng.integers(spec.minimum, best + 1, size=(32, *spec.shape))
        reward = np.float32((action == best).reshape(32, -1).mean(axis=1))
        observation = tf.ones([32, 2])
        train(Transition(tf.ones([32]), observation, tf.constant(action, spec.dtype),
                         tf.constant(reward), tf.zeros([32]), observation))  # fmt: skip
    step = agent.policy.action(ts.restart(tf.ones([1, 2]), 1))
    np.testing.assert_array_equal(step.action[0], np.broadcast_to(best, spec.shape))


@pytest.mark.parametrize("name", ["tqc", "crossq", "xqc", "td3", "ddpg"])
def test_algorithms_without_discrete_actions_are_refused_by_name(name):
    message = (
        f"algorithm is '{name}', but the environment's actions are discrete .*; allowed is 'sac'"
    )
    with pytest.raises(ConfigError, match=message):
        make_agent(ONE, algorithm=name)


def test_noise_of_a_colour_is_refused():
    with pytest.raises(ConfigError, match="exploration_noise_beta is 1, but .* allowed is 0"):
        make_agent(ONE, exploration_noise_beta=1.0)
