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

    def __init__(
        self, observation_spec, num_outputs, action_spec=None, of_outputs=None, state_spec=(),
        name=None,
    ):  # fmt: skip
        spec = observation_spec if action_spec is None else (observation_spec, action_spec)
        super().__init__(spec, state_spec, name or "Linear")
        self._is_critic = action_spec is not None
        self._layer = tf.keras.layers.Dense(num_outputs)
        self._of_outputs = of_outputs or (lambda outputs: outputs)

    def call(self, inputs, step_type=None, network_state=(), training=False):
        observation = inputs[0] if self._is_critic else inputs
        return self._of_outputs(self._layer(observation)), network_state


class Given(network.Network):
    """The observation's outputs of a layer that is an argument."""

    def __init__(self, spec, layer, features_spec=None, name=None):
        super().__init__(spec, (), name or "Given")
        self.layer, self.features_spec = layer, features_spec

    def call(self, inputs, step_type=None, network_state=(), training=False):
        return self.layer(tf.nest.flatten(inputs)[0]), network_state


def make_agent(
    action_spec=ARM, critic=None, actor=None, state_value=None, summarizer=None, **settings
):
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

        if summarizer is not None:

            def summarizer_ctor(self, obs_spec):
                return summarizer(obs_spec)

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


FEATURES = tf.TensorSpec([1], tf.float32, "features")
STATE = [tf.TensorSpec([1], tf.float32)]


def one_number():
    """A layer [B, n] -> [B]."""
    return tf.keras.Sequential(
        [tf.keras.layers.Dense(1), tf.keras.layers.Lambda(lambda outputs: outputs[..., 0])]
    )


@pytest.mark.parametrize(
    ("hook", "networks", "settings"),
    [
        ("critic", "Given and critic_1", {}),
        ("actor", "Given and target_actor", {"algorithm": "td3"}),
        ("state_value", "Given and target_state_value", {}),
        ("summarizer", "Given and target_summarizer", {"share_summarizer": True}),
        ("summarizer", "Given and Given", {}),  # one for each critic
    ],
)
def test_copies_that_train_the_same_layers_are_refused(hook, networks, settings):
    layer = tf.keras.layers.Dense(1) if hook in ("actor", "summarizer") else one_number()
    made = {hook: lambda *specs: Given(specs if len(specs) > 1 else specs[0], layer, FEATURES)}
    if hook == "actor":
        made = {hook: lambda obs_spec, _: Given(obs_spec, layer)}
    message = (
        f"TrainParams.{hook}_ctor returned a Given that shares variables with its copies: "
        f"{networks} both train .*kernel:0.*; expected one that makes the layers in __init__"
    )
    with pytest.raises(ConfigError, match=message):
        make_agent(**made, recurrent=hook == "summarizer", **settings)


def test_copies_may_share_what_is_not_trained():
    """Such as the statistics of a layer that has seen data, with their count, an integer."""
    normalization = tf.keras.layers.Normalization()
    normalization.adapt([[0.0, 1.0], [2.0, 5.0]])

    class Normalizing(Linear):
        def __init__(self, spec, layer, name=None):
            super().__init__(spec[0], 1, spec[1], lambda q: q[..., 0], name=name)
            self.normalization = layer

        def call(self, inputs, *args, **kwargs):
            return super().call((self.normalization(inputs[0]), inputs[1]), *args, **kwargs)

    agent = make_agent(critic=lambda *specs: Normalizing(specs, normalization))
    mean = normalization.mean.numpy()
    assert np.isfinite(agent.train(minibatch(tf.ones([2, 1]))).loss)
    np.testing.assert_array_equal(normalization.mean, mean)


def test_target_networks_take_over_integers():
    class Counting(Linear):
        def __init__(self, obs_spec, action_spec, name=None):
            super().__init__(obs_spec, 1, action_spec, lambda q: q[..., 0], name=name)
            self.count = tf.Variable(0, trainable=False, dtype=tf.int64)

    agent = make_agent(critic=Counting, target_update_tau=0.25)
    for index, critic in enumerate(agent.networks.critics):
        critic.count.assign(7 + index)
    agent.train(minibatch(tf.ones([2, 1])))
    assert [int(target.count) for target in agent.networks.target_critics] == [7, 7 + 1]


@pytest.mark.parametrize(
    ("hook", "settings", "message"),
    [
        ("actor", {}, "recurrent is False; expected recurrent = True, or a network without"),
        ("critic", {}, "recurrent is False"),
        ("state_value", {}, "recurrent is False"),
        ("actor", {"share_summarizer": True}, "share_summarizer is True; expected .* = False"),
        ("critic", {"share_summarizer": True}, "share_summarizer is True"),
    ],
)
def test_a_state_that_is_not_kept_is_refused(hook, settings, message):
    made = {hook: lambda obs_spec, *specs: Linear(obs_spec, 1, *specs, state_spec=STATE)}
    message = rf"TrainParams.{hook}_ctor returned a network with a state, .*, and {message}"
    with pytest.raises(ConfigError, match=message):
        make_agent(**made, recurrent=bool(settings), **settings)


def test_targets_see_the_first_observation_though_the_actor_has_no_memory():
    def target(first):
        tf.keras.utils.set_random_seed(1)
        agent = make_agent(
            actor=lambda obs_spec, _: Linear(obs_spec, 1),
            algorithm="td3", recurrent=True, rnn_units=3, target_noise_std=0.0,
        )  # fmt: skip
        observation, after = tf.constant([[[first, 1.0]]]), tf.ones([1, 1, 2])
        ones = tf.ones([1, 1])
        step = Transition(ones, observation, ones[..., tf.newaxis], 0 * ones, ones, after)
        return float(agent.gradients(step)[1].extra["td_target"])

    assert target(1.0) == target(1.0)
    assert target(1.0) != target(5.0)


class Choosing(network.Network):
    """Rows of a table, chosen by the observation, and a variable that has no gradient."""

    def __init__(self, obs_spec, action_spec, name=None):
        super().__init__(obs_spec, (), name or "Choosing")
        self.table = tf.keras.layers.Embedding(3, 1)
        self.unused = tf.Variable(1.0)

    def call(self, observation, step_type=None, network_state=(), training=False):
        return self.table(tf.cast(observation[..., 0] > 0, tf.int32)), network_state


def test_delayed_updates_allow_sparse_and_missing_gradients():
    agent = make_agent(actor=Choosing, algorithm="td3", policy_delay=2)
    train = tf.function(agent.train)
    (table,) = agent.networks.actor.table.weights
    before = table.numpy()
    changed = []
    for _ in range(2):
        train(minibatch(tf.ones([2, 1])))
        changed.append((table.numpy() != before).ravel().tolist())
    assert changed == [[False] * 3, [True, True, False]]  # observations choose rows 0 and 1
    assert agent.networks.actor.unused.numpy() == 1


def test_a_critic_may_ignore_features():
    class Twofold(network.Network):
        features_spec = {"read": FEATURES, "ignored": FEATURES}

        def __init__(self, obs_spec, name=None):
            super().__init__(obs_spec, (), name or "Twofold")
            self.layers_of = {key: tf.keras.layers.Dense(1) for key in self.features_spec}

        def call(self, observation, step_type=None, network_state=(), training=False):
            return {k: layer(observation) for k, layer in self.layers_of.items()}, network_state

    class Reading(Linear):
        def call(self, inputs, *args, **kwargs):
            return super().call((inputs[0]["read"], inputs[1]), *args, **kwargs)

    agent = make_agent(
        critic=lambda obs_spec, action_spec: Reading(
            obs_spec, 1, action_spec, lambda q: q[..., 0]
        ),
        summarizer=Twofold, recurrent=True, share_summarizer=True,
    )  # fmt: skip
    kernels = {key: layer.kernel for key, layer in agent.networks.summarizer.layers_of.items()}
    before = {key: kernel.numpy() for key, kernel in kernels.items()}
    agent.train(tf.nest.map_structure(lambda part: part[:, tf.newaxis], minibatch(tf.ones([2, 1]))))
    changed = {key: bool(np.any(kernel != before[key])) for key, kernel in kernels.items()}
    assert changed == {"read": True, "ignored": False}


def normal(loc):
    return tfp.distributions.Independent(tfp.distributions.Normal(loc, 1.0), 1)


@pytest.mark.parametrize(
    ("algorithm", "of_outputs", "message"),
    [
        ("sac", None, "actions; expected one of a distribution over actions, because .* stochas"),
        ("td3", normal, "a Independent; expected one of actions, because .* deterministic policy"),
    ],
)
def test_an_actor_of_another_kind_of_policy_is_refused(algorithm, of_outputs, message):
    with pytest.raises(ConfigError, match=f"actor_ctor returned a network of {message}"):
        make_agent(
            actor=lambda obs_spec, _: Linear(obs_spec, 1, of_outputs=of_outputs),
            algorithm=algorithm,
        )


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_summarizer_needs_the_spec_of_its_features(is_shared):
    message = "summarizer_ctor returned a Linear without features_spec; expected a network whose"
    with pytest.raises(ConfigError, match=message):
        make_agent(
            summarizer=lambda obs_spec: Linear(obs_spec, 1),
            recurrent=True,
            share_summarizer=is_shared,
        )


@pytest.mark.parametrize(
    ("hook", "settings"), [("critic", {}), ("actor", {"algorithm": "td3"}), ("state_value", {})]
)
def test_a_constructor_without_a_name_is_refused(hook, settings):
    class Nameless(Linear):
        def __init__(self, obs_spec, action_spec=None):
            is_actor = hook == "actor"
            of_outputs = None if is_actor else lambda outputs: outputs[..., 0]
            super().__init__(obs_spec, 1, None if is_actor else action_spec, of_outputs)

    message = f"{hook}_ctor returned a Nameless, which cannot be copied: .*'name'.*takes `name`"
    with pytest.raises(ConfigError, match=message):
        make_agent(**{hook: Nameless}, **settings)
