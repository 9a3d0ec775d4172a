"""Agents, networks and batches whose numbers can be computed by hand."""

import math

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.sac_agent import SacAgent
from tfagents_system.networks.critic_networks import MlpCriticNetwork

FIRST, MID, LAST = (int(t) for t in (ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST))
OBSERVATION = tf.TensorSpec([1], tf.float32, "observation")


class FixedDistribution(tfp.distributions.Independent):
    """One action, and a log-probability of the test's choice."""

    def __init__(self, action, log_prob):
        self._fixed_log_prob = log_prob
        super().__init__(tfp.distributions.Deterministic(action), 1)

    def log_prob(self, value):
        return self._fixed_log_prob


class LinearActor(network.Network):
    """Action w s with log-probability k w s; with a state it counts as recurrent."""

    def __init__(self, k, state_spec=()):  # state_spec: of what it hands on unchanged
        super().__init__(OBSERVATION, state_spec, name="LinearActor")
        self.weight = tf.Variable(0.0)
        self._k = k

    def call(self, observation, step_type=None, network_state=(), training=False):
        action = self.weight * observation
        if not network_state:
            network_state = self.get_initial_state(tf.shape(observation)[0])
        return FixedDistribution(action, self._k * action[..., 0]), network_state


def action_spec(magnitude=1.0):
    return tensor_spec.BoundedTensorSpec([1], tf.float32, -magnitude, magnitude, "action")


def make_agent(actor=None, critic=None, magnitude=1.0, **kwargs):
    actor = actor or LinearActor(k=3.0)
    critic = critic or MlpCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=())
    return SacAgent(
        ts.time_step_spec(OBSERVATION),
        action_spec(magnitude),
        actor,
        critic,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
        **kwargs,
    )


def set_weights(net, values):
    for variable, value in zip(net.variables, values, strict=True):
        variable.assign(tf.reshape(tf.constant(value, tf.float32), variable.shape))


# Two transitions; the second is terminal.
BATCH = dict(step_type=[FIRST, MID], s=[1.0, -2.0], a=[0.5, 1.0], r=[1.0, 10.0], d=[1.0, 0.0],
             next_s=[2.0, 7.0])  # fmt: skip

# Q_i(s, a) = x s + y a + z with (x, y), z:
CRITICS = [([1.0, 2.0], 0.5), ([2.0, -1.0], 0.25)]
TARGETS = [([3.0, 1.0], 0.0), ([-1.0, 4.0], 2.0)]
ACTOR_WEIGHT = 0.5
LOG_ALPHA = math.log(0.2)
GAMMA = 0.9


def linear_agent(**kwargs):
    """A feed-forward agent in which every number can be computed by hand."""
    agent = make_agent(gamma=GAMMA, initial_log_alpha=LOG_ALPHA, **kwargs)
    agent.actor.weight.assign(ACTOR_WEIGHT)
    for net, values in zip(agent.critics + agent.target_critics, CRITICS + TARGETS, strict=True):
        set_weights(net, values)
    return agent


def with_gradient_steps(agent):
    """Each update subtracts the gradient itself, so that a test can read it."""
    sgd = tf.keras.optimizers.legacy.SGD
    agent.actor_optimizer, agent.critic_optimizer, agent.alpha_optimizer = (
        sgd(1.0) for _ in range(3)
    )
    return agent


def experience(step_type, s, a, r, d, next_s):
    """A batch of transitions with one-dimensional observations and actions, [B] or [B, T] each."""
    step_type, r, d = tf.constant(step_type), tf.constant(r, tf.float32), tf.constant(d, tf.float32)
    s, a, next_s = (tf.constant(x, tf.float32)[..., tf.newaxis] for x in (s, a, next_s))
    return trajectory.Transition(
        ts.TimeStep(step_type, tf.zeros_like(r), tf.ones_like(r), s),
        policy_step.PolicyStep(a),
        ts.TimeStep(tf.fill(step_type.shape, MID), r, d, next_s),
    )


def weights_of(nets):
    return [v.numpy() for net in nets for v in net.variables]
