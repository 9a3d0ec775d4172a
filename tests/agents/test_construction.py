import numpy as np
import pytest
import tensorflow as tf
from fakes import CountingEnv
from tf_agents.agents.ddpg import critic_network
from tf_agents.agents.ddpg.actor_network import ActorNetwork
from tf_agents.agents.ddpg.ddpg_agent import DdpgAgent
from tf_agents.agents.sac import sac_agent as stock_sac
from tf_agents.agents.sac.tanh_normal_projection_network import TanhNormalProjectionNetwork
from tf_agents.agents.td3.td3_agent import Td3Agent
from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.construction import make_agent, stored_state_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.learning.train_step import as_experience
from tfagents_system.policies.acting import AgentPolicies, TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    actor_fc_layer_params = (4,)
    critic_joint_fc_layer_params = (4,)

    def __init__(self):
        super().__init__({"horizon": 10})

    def env_ctor(self, *args, seed=None, **kwargs):
        return CountingEnv()


class WithStockNetworks(Params):
    def actor_ctor(self, obs_spec, action_spec):
        return ActorDistributionNetwork(
            obs_spec,
            action_spec,
            fc_layer_params=(4,),
            continuous_projection_net=TanhNormalProjectionNetwork,
        )

    def critic_ctor(self, obs_spec, action_spec):
        return critic_network.CriticNetwork((obs_spec, action_spec), joint_fc_layer_params=(4,))


def stock_networks(obs_spec, action_spec):
    actor = ActorNetwork(obs_spec, action_spec, fc_layer_params=(4,))
    critic = critic_network.CriticNetwork((obs_spec, action_spec), joint_fc_layer_params=(4,))
    return actor, critic


def adam():
    return tf.keras.optimizers.legacy.Adam(1e-2)


class StockSac(Params):
    def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
        return stock_sac.SacAgent(
            time_step_spec,
            action_spec,
            critic_network=stock_networks(obs_spec, action_spec)[1],
            actor_network=ActorDistributionNetwork(obs_spec, action_spec, fc_layer_params=(4,)),
            actor_optimizer=adam(),
            critic_optimizer=adam(),
            alpha_optimizer=adam(),
            train_step_counter=train_step,
        )


class StockTd3(Params):
    agent_class = Td3Agent

    def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
        return self.agent_class(
            time_step_spec,
            action_spec,
            *stock_networks(obs_spec, action_spec),
            adam(),
            adam(),
            train_step_counter=train_step,
        )


class StockDdpg(StockTd3):
    agent_class = DdpgAgent


def transitions(batch_size=4):
    """A packed batch as it comes from the replay buffer; the last row is terminal."""
    rng = np.random.default_rng(0)

    def column(*shape):
        return tf.constant(rng.uniform(-1, 1, (batch_size, *shape)), tf.float32)

    discount = tf.constant([1.0] * (batch_size - 1) + [0.0])
    step_type = tf.ones([batch_size])
    return Transition(step_type, column(1), column(1), column(), discount, column(1))


def test_default_agent_is_sac_with_the_returned_train_step():
    agent, train_step = make_agent(Params(), CountingEnv())
    assert (type(agent), agent.algorithm) == (ActorCriticAgent, "sac")
    assert agent.train_step_counter is train_step
    assert (train_step.dtype, train_step.numpy()) == (tf.int64, 0)


def test_agent_constructor_receives_the_specs_of_the_environment():
    received = []

    class Recording(Params):
        def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
            received.extend([obs_spec, action_spec, time_step_spec])
            return super().agent_ctor(train_step, obs_spec, action_spec, time_step_spec)

    make_agent(Recording(), CountingEnv(bounds=(-2.0, 3.0)))
    obs_spec, action_spec, time_step_spec = received
    assert obs_spec == tf.TensorSpec([1], tf.float32, "observation")
    assert time_step_spec.observation == obs_spec
    assert (action_spec.shape, action_spec.minimum, action_spec.maximum) == ([1], -2.0, 3.0)


@pytest.mark.parametrize(("agent", "name"), [(None, "NoneType"), ("sac", "str")])
def test_constructor_of_something_else_raises(agent, name):
    class Wrong(Params):
        def agent_ctor(self, *args):
            return agent

    with pytest.raises(ConfigError, match=f"agent_ctor returned a {name}; expected a TF-Agents"):
        make_agent(Wrong(), CountingEnv())


@pytest.mark.parametrize("params", [Params, WithStockNetworks, StockSac, StockTd3, StockDdpg])
def test_agent_trains_on_replayed_transitions_and_acts(params):
    environment = CountingEnv(bounds=(-2.0, 3.0))
    agent, train_step = make_agent(params(), environment)
    policies = AgentPolicies(agent, np.random.default_rng(0))
    assert isinstance(policies.greedy, TfActingPolicy) == (params is not Params)
    time_step = environment.reset()
    before, _ = policies.greedy.action(time_step, policies.greedy.initial_state())

    is_stock = not isinstance(agent, ActorCriticAgent)
    loss_info = agent.train(as_experience(transitions()) if is_stock else transitions())
    assert np.isfinite(loss_info.loss)
    assert train_step.numpy() == 1

    policies.update([variable.numpy() for variable in policies.variables])
    after, _ = policies.greedy.action(time_step, policies.greedy.initial_state())
    assert (after != before).all()
    for policy in (policies.collect, policies.greedy):
        state = policy.initial_state()
        for _ in range(3):
            action, state = policy.action(time_step, state)
            assert (action.shape, action.dtype) == ((1,), np.float32)
            assert -2 <= action <= 3
            time_step = environment.step(action)


@pytest.mark.parametrize(
    ("is_shared", "rnn_type", "num_parts"), [(False, "lstm", 2 * 2), (True, "gru", 2)]
)
def test_the_stored_state_is_that_of_the_policy(is_shared, rnn_type, num_parts):
    params = Params()
    params.recurrent = params.stored_state = True
    params.share_summarizer, params.rnn_type = is_shared, rnn_type
    params.rnn_layers, params.rnn_units = 2, 5
    agent, _ = make_agent(params, CountingEnv())
    assert [part.shape.as_list() for part in stored_state_spec(agent, params)] == [[5]] * num_parts
    params.stored_state = False
    assert stored_state_spec(agent, params) == []


def test_a_policy_without_state_has_none_to_store():
    params = Params()
    agent, _ = make_agent(params, CountingEnv())
    params.stored_state = True
    with pytest.raises(ConfigError, match="stored_state is True, but .* no state; .* False"):
        stored_state_spec(agent, params)


@pytest.mark.parametrize(("burn_in_len", "counts"), [(0, True), (1, False)])
def test_the_agent_leaves_out_the_burn_in_of_the_settings(burn_in_len, counts):
    params = Params()
    params.recurrent, params.burn_in_len = True, burn_in_len
    params.rnn_units = 3
    agent, _ = make_agent(params, CountingEnv())
    observation = np.zeros([1, 2, *agent.time_step_spec.observation.shape], np.float32)
    action = np.zeros([1, 2, *agent.action_spec.shape], np.float32)
    ones = np.ones([1, 2], np.float32)  # also the step type MID

    def target(first_reward):
        tf.keras.utils.set_random_seed(1)
        reward = np.float32([[first_reward, 0]])
        step = Transition(ones, observation, action, reward, 0 * ones, observation)
        step = tf.nest.map_structure(tf.constant, step)
        return float(agent.gradients(step)[1].extra["td_target"])

    assert (target(100.0) != target(0.0)) == counts


@pytest.mark.parametrize(("burn_in_len", "flows"), [(0, True), (1, False)])
def test_the_summarizer_stops_gradients_at_the_burn_in_of_the_settings(burn_in_len, flows):
    params = Params()
    params.recurrent, params.burn_in_len = True, burn_in_len
    summarizer = params.summarizer_ctor(tf.TensorSpec([2], tf.float32))
    observations = tf.ones([1, 2, 2])
    with tf.GradientTape() as tape:
        tape.watch(observations)
        features, _ = summarizer(observations)
        last = tf.reduce_sum(features[:, 1])
    gradient = tape.gradient(last, observations)
    assert bool(tf.reduce_any(gradient[0, 0] != 0)) == flows
    assert bool(tf.reduce_any(gradient[0, 1] != 0))
