"""Agents, networks and batches whose numbers can be computed by hand."""

import math

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.building import Parts
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.data.transition import Transition
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.train_params_base import TrainParamsBase

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


class Params(TrainParamsBase):
    """Settings of an agent; a state-value network may be given."""

    state_value = None

    def __init__(self, **settings):
        super().__init__({"horizon": 50})
        for name, value in settings.items():
            setattr(self, name, value)

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")

    def state_value_ctor(self, obs_spec):
        return self.state_value


def make_agent(
    actor=None, critic=None, magnitude=1.0, summarizer=None, spec=None, algorithm="sac", **settings
):
    """Returns the agent of `algorithm` for given networks."""
    parts = Parts(
        tf.Variable(0, dtype=tf.int64),
        ts.time_step_spec(OBSERVATION),
        summarizer.features_spec if summarizer else OBSERVATION,
        action_spec(magnitude) if spec is None else spec,
        actor or LinearActor(k=3.0),
        critic or MlpCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=()),
        summarizer,
    )
    params = Params(algorithm=algorithm, **settings)
    return ALGORITHMS[algorithm].implementation().make_agent(params, parts)


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
    agent = make_agent(discount=GAMMA, sac_log_alpha=LOG_ALPHA, **kwargs)
    agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    for net, values in zip(
        agent.networks.critics + agent.networks.target_critics, CRITICS + TARGETS, strict=True
    ):
        set_weights(net, values)
    return agent


def with_gradient_steps(agent):
    """Each update subtracts the gradient itself, so that a test can read it."""
    agent.actor_optimizer, agent.critic_optimizer = (
        tf.keras.optimizers.legacy.SGD(1.0) for _ in range(2)
    )
    if agent.temperature is not None:
        agent.temperature.optimizer = tf.keras.optimizers.legacy.SGD(1.0)
    return agent


def transition(step_type, s, a, r, d, next_s):
    """A batch of transitions with one-dimensional observations and actions, [B] or [B, T] each."""
    step_type, r, d = (tf.constant(x, tf.float32) for x in (step_type, r, d))
    s, a, next_s = (tf.constant(x, tf.float32)[..., tf.newaxis] for x in (s, a, next_s))
    return Transition(step_type, s, a, r, d, next_s)


def numbers(info):
    """The metrics of a train step in the order of their names."""
    return [float(info[name]) for name in sorted(info)]


def weights_of(nets):
    return [v.numpy() for net in nets for v in net.variables]
