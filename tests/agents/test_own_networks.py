"""Networks that hooks return: what cannot be trained is refused, and what can is the same."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.agents.ddpg.critic_network import CriticNetwork
from tf_agents.networks import network
from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.policies.acting import AgentPolicies
from tfagents_system.train_params_base import TrainParamsBase

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ARM = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "arm")
ONE = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 2, "action")  # 0, 1 or 2
PAIR = tensor_spec.BoundedTensorSpec([2], tf.int32, 0, 2, "action")
NESTED = {"arm": ARM, "grip": ONE}


class Linear(network.Network):
    """The observation's kernel [2, n] -> n numbers, or a distribution of them."""

    def __init__(self, observation_spec, num_outputs, action_spec=None, of_outputs=None, name=None):
        spec = observation_spec if action_spec is None else (observation_spec, action_spec)
        super().__init__(spec, (), name or "Linear")
        self._is_critic = action_spec is not None
        self._layer = tf.keras.layers.Dense(num_outputs)
        self._of_outputs = of_outputs or (lambda outputs: outputs)

    def call(self, inputs, step_type=None, network_state=(), training=False):
        observation = inputs[0] if self._is_critic else inputs
        return self._of_outputs(self._layer(observation)), network_state


def make_agent(action_spec=ARM, critic=None, actor=None, state_value=None, **settings):
    """Returns the agent; networks that are given are made by functions of their specs."""

    class Params(TrainParamsBase):
        actor_fc_layer_params = critic_joint_fc_layer_params = ()

        def env_ctor(self, *args, seed=None, **kwargs):
            raise NotImplementedError("the specs are given")

        if critic is not None:

            def critic_ctor(self, obs_spec, action_spec):
                return critic(obs_spec, action_spec)

        if actor is not None:

            def actor_ctor(self, obs_spec, action_spec):
                return actor(obs_spec, action_spec)

        if state_value is not None:
            state_value_network = True

            def state_value_ctor(self, obs_spec):
                return state_value(obs_spec)

    params = Params({"horizon": 10})
    for name, value in settings.items():
        setattr(params, name, value)
    return params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec, ts.time_step_spec(OBSERVATION)
    )


def critic_of(num_outputs, of_outputs=None):
    return lambda obs_spec, action_spec: Linear(obs_spec, num_outputs, action_spec, of_outputs)


def both(values):
    return {"extrinsic": values[..., 0], "curiosity": values}


STREAMS = {"extrinsic": {}, "curiosity": {}}


@pytest.mark.parametrize(
    ("settings", "critic", "message"),
    [
        ({}, critic_of(1), r"shape \[B, 1\]; expected \[B\].*: one Q .* tf.squeeze\("),
        ({"algorithm": "td3"}, critic_of(1), r"shape \[B, 1\]; expected \[B\]"),
        (
            {},
            critic_of(2),
            r"shape \[B, 2\]; expected \[B\], with B env steps: one Q of each env",
        ),
        ({"algorithm": "tqc", "tqc_quantiles": 5}, critic_of(4), r"\[B, 4\]; expected \[B, 5\]"),
        (
            {"reward_signals": STREAMS},
            critic_of(1, both),
            r"\[B, 1\] for 'curiosity'; expected \[B\]",
        ),
        (
            {"action_spec": ONE},
            critic_of(2),
            r"\[B, 2\]; expected \[B, 3\], .* Q of all integers",
        ),
        ({"action_spec": PAIR}, critic_of(3), r"\[B, 3\]; expected \[B, 6\]"),
        ({"action_spec": NESTED}, critic_of(1), r"\[B, 1\]; expected \[B, 3\]"),
        ({}, critic_of(1, lambda q: {"q": q}), r"a dict; expected \[B\]"),
    ],
)
def test_a_critic_of_another_shape_is_refused(settings, critic, message):
    with pytest.raises(ConfigError, match=f"critic_ctor returned a network of .*{message}"):
        make_agent(critic=critic, **settings)


def test_a_state_value_network_of_another_shape_is_refused():
    message = r"state_value_ctor returned a network of shape \[B, 1\]; expected \[B\]"
    with pytest.raises(ConfigError, match=message):
        make_agent(state_value=lambda obs_spec: Linear(obs_spec, 1))


def keras_model(*specs):
    return tf.keras.Sequential([tf.keras.layers.Dense(1)])


@pytest.mark.parametrize("hook", ["actor", "critic", "state_value"])
@pytest.mark.parametrize(
    ("made", "name"), [(lambda *specs: None, "NoneType"), (keras_model, "Sequential")]
)
def test_what_is_no_network_is_refused_by_the_name_of_its_hook(hook, made, name):
    message = f"TrainParams.{hook}_ctor returned a {name}; expected a network of TF-Agents"
    with pytest.raises(ConfigError, match=message):
        make_agent(**{hook: made})


def stock_actor(obs_spec, action_spec):
    return ActorDistributionNetwork(obs_spec, action_spec, fc_layer_params=())


def test_stock_critics_have_no_values_of_all_integers():
    with pytest.raises(ConfigError, match=r"shape \[B\]; expected \[B, 3\]"):
        make_agent(ONE, lambda *specs: CriticNetwork(specs, joint_fc_layer_params=()))


def minibatch(action):
    return Transition(
        tf.ones([2]), tf.constant([[1.0, 2.0], [-1.0, 0.5]]), action,
        tf.constant([1.0, -2.0]), tf.constant([1.0, 0.0]), tf.constant([[0.5, -1.0], [2.0, 2.0]]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        (ONE, tf.constant([2, 0], tf.int64)),
        (PAIR, tf.constant([[1, 0], [0, 2]])),
        (NESTED, {"arm": tf.constant([[0.5], [-1.0]]), "grip": tf.constant([2, 0], tf.int64)}),
    ],
    ids=["one", "pair", "nested"],
)
def test_integers_of_stock_actors_have_the_losses_of_built_in_ones(spec, action):
    """With equal kernels of equal layers."""
    agents = [make_agent(spec, actor=actor) for actor in (None, stock_actor)]
    built_in, stock = agents
    critics = [agent.networks.critics + agent.networks.target_critics for agent in agents]
    for one, other in zip(*critics, strict=True):
        other.set_weights(one.get_weights())
    if spec is not NESTED:  # whose stock actor draws Boxes in another way
        stock.networks.actor.set_weights(built_in.networks.actor.get_weights())
    before = [variable.numpy() for variable in stock.policy.variables()]
    of_built_in, of_stock = (agent.train(minibatch(action)).extra for agent in agents)
    if spec is not NESTED:
        for name in ("critic_loss", "actor_loss", "alpha_loss", "entropy"):
            np.testing.assert_allclose(of_stock[name], of_built_in[name], rtol=1e-5)
    assert np.isfinite(of_stock["critic_loss"])
    after = [variable.numpy() for variable in stock.policy.variables()]
    assert all(np.any(one != other) for one, other in zip(before, after, strict=True))
    policies = AgentPolicies(stock, np.random.default_rng(1))
    time_step = ts.restart(np.zeros([2], np.float32))
    drawn, _ = policies.collect.action(time_step, policies.collect.initial_state())
    assert action_head(spec).as_vector(tf.nest.map_structure(tf.constant, drawn)).shape == (
        action_head(spec).vector_size
    )


def of_no_choices(outputs):
    return tfp.distributions.Deterministic(tf.cast(outputs[..., 0], tf.int64))


@pytest.mark.parametrize(
    ("spec", "actor", "message"),
    [
        (
            tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "action"),
            stock_actor,
            r"of a Categorical \(1, 3\) .*; expected action_head\(.*logits \[B, 3\]",
        ),
        (
            ONE,
            lambda obs_spec, _: Linear(obs_spec, 1, of_outputs=of_no_choices),
            r"of a Deterministic .*; expected a Categorical \[B, 3\], or action_head\(",
        ),
    ],
    ids=["other_integers", "no_distribution"],
)
def test_an_actor_of_other_integers_is_refused(spec, actor, message):
    with pytest.raises(ConfigError, match=f"actor_ctor returned a network {message}"):
        make_agent(spec, actor=actor)


def test_an_actor_may_have_the_head_of_built_in_ones():
    spec = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 5], [1, 7], "action")
    agent = make_agent(
        spec,
        critic=critic_of(2 + 3),
        actor=lambda obs_spec, action_spec: Linear(
            obs_spec, 2 + 3, of_outputs=action_head(action_spec).categoricals
        ),
    )
    loss = agent.train(minibatch(tf.constant([[1, 5], [0, 7]]))).loss
    assert np.isfinite(loss)


def test_built_in_critics_of_all_kinds_pass():
    for spec in (ARM, ONE, PAIR, NESTED):
        assert type(make_agent(spec).networks.critics[0]) is MlpCriticNetwork
