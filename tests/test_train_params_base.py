import inspect

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.data.transition import Transition
from tfagents_system.launch.checks.params_check import PUBLISHED
from tfagents_system.minitaur_params import TrainParams as MinitaurParams
from tfagents_system.networks.actor_networks import MlpActorNetwork, SummarizingActorNetwork
from tfagents_system.networks.critic_networks import MlpCriticNetwork, SummarizingCriticNetwork
from tfagents_system.pendulum_params import TrainParams as PendulumParams
from tfagents_system.train_params_base import TrainParamsBase

OBSERVATION = tf.TensorSpec([3], tf.float32, "observation")
ACTION = tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1, "action")


class Params(TrainParamsBase):
    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")


def params_with(cls=Params, **values):
    params = cls({"horizon": 100})
    for name, value in values.items():
        setattr(params, name, value)
    return params


def test_class_without_env_ctor_cannot_be_made():
    with pytest.raises(TypeError, match="abstract method env_ctor"):
        TrainParamsBase({"horizon": 100})


def test_hyperparameters_are_the_defaults_until_set():
    expected = {name: hyperparameter.default for name, hyperparameter in PUBLISHED.items()}
    assert params_with().hyperparameters() == expected
    assert params_with(num_iter=3).hyperparameters() == expected | {"num_iter": 3}


def test_the_published_hooks_are_the_methods_of_the_base_class():
    methods = {n for n, v in vars(TrainParamsBase).items() if inspect.isfunction(v)}
    own = {"hyperparameters", "check"}
    assert {name for name in methods if not name.startswith("_")} - own == set(HOOKS)


def test_setting_one_instance_leaves_the_others():
    params_with(num_iter=3)
    assert (Params.num_iter, params_with().num_iter) == (1000, 1000)


def test_hooks_give_no_arguments():
    params = params_with()
    assert params.collect_env_args_kwargs(id=0) == ((), {})
    assert params.eval_env_args_kwargs(id=0, collect_env=None) == ((), {})


@pytest.mark.parametrize("cls", [PendulumParams, MinitaurParams])
def test_published_params_are_valid(cls):
    params_with(cls).check("params.py")


def test_check_finds_a_misspelt_class_attribute_also_of_a_base_class():
    class Base(Params):
        num_iters = 3

    class Derived(Base):
        robot = "ant"

    with pytest.raises(ConfigError, match="params.py: TrainParams.num_iters is not .*num_iter?"):
        params_with(Derived).check("params.py")


def test_check_finds_a_misspelt_instance_attribute():
    with pytest.raises(ConfigError, match="TrainParams.discout is not .* Did you mean discount?"):
        params_with(discout=0.9).check("params.py")


def test_check_finds_a_value_that_is_not_allowed():
    with pytest.raises(ConfigError, match="params.py: num_iter is 0; expected an integer >= 1"):
        params_with(num_iter=0).check("params.py")


def test_check_compares_with_the_horizon_of_the_config():
    params = params_with(recurrent=True, recurrent_sequence_length=101)
    with pytest.raises(ConfigError, match=r"exceeds the horizon \(100\)"):
        params.check("params.py")


def test_networks_have_the_given_layers():
    params = params_with(actor_fc_layer_params=(5, 4), critic_joint_fc_layer_params=[7])
    actor = params.actor_ctor(OBSERVATION, ACTION)
    critic = params.critic_ctor(OBSERVATION, ACTION)
    actor.create_variables()
    critic.create_variables()
    assert (type(actor), type(critic)) == (MlpActorNetwork, MlpCriticNetwork)
    assert [v.shape.as_list() for v in actor.variables] == [[3, 5], [5], [5, 4], [4], [4, 4], [4]]
    assert [v.shape.as_list() for v in critic.variables] == [[3 + 2, 7], [7], [7, 1], [1]]


@pytest.mark.parametrize(("rnn_type", "num_gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_recurrent_networks_have_layers_of_their_own(rnn_type, num_gates):
    params = params_with(recurrent=True, rnn_type=rnn_type, rnn_layers=2, rnn_units=5)
    actor = params.actor_ctor(OBSERVATION, ACTION)
    critic = params.critic_ctor(OBSERVATION, ACTION)
    assert type(actor) is SummarizingActorNetwork
    assert type(critic) is SummarizingCriticNetwork
    for network in (actor, critic):
        network.create_variables()
        shapes = [variable.shape.as_list() for variable in network.summarizer.variables]
        of_gates = 5 * num_gates
        assert shapes == [[3, of_gates], [5, of_gates], [of_gates],
                          [5, of_gates], [5, of_gates], [of_gates]]  # fmt: skip


@pytest.mark.parametrize("algorithm", ["sac", "tqc", "td3", "ddpg"])
def test_a_shared_summarizer_is_one_with_one_target(algorithm):
    params = params_with(recurrent=True, share_summarizer=True, rnn_units=5, algorithm=algorithm)
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, ACTION, ts.time_step_spec(OBSERVATION)
    )
    summarizer, target = agent.networks.summarizer, agent.networks.target_summarizer
    assert {v.ref() for v in summarizer.variables} <= {
        v.ref() for v in agent.collect_policy.variables()
    }
    assert not {v.ref() for v in summarizer.variables} & {v.ref() for v in target.variables}
    for network in (agent.networks.actor, *agent.networks.critics, *agent.networks.target_critics):
        assert network.variables[0].shape[0] in (5, 5 + 2)  # features, and the action


def test_agent_has_the_hyperparameters():
    params = params_with(
        actor_fc_layer_params=(4,),
        critic_joint_fc_layer_params=(4,),
        actor_learning_rate=0.1,
        critic_learning_rate=0.2,
        alpha_learning_rate=0.3,
        target_update_tau=0.4,
        target_update_period=5,
        gradient_clipping=0.6,
        sac_log_alpha=-0.7,
        discount=0.8,
    )
    train_step = tf.Variable(0, dtype=tf.int64)
    agent = params.agent_ctor(train_step, OBSERVATION, ACTION, ts.time_step_spec(OBSERVATION))
    assert agent.algorithm == "sac"
    assert agent.train_step_counter is train_step
    optimizers = (agent.actor_optimizer, agent.critic_optimizer, agent.temperature.optimizer)
    assert [o.learning_rate for o in optimizers] == pytest.approx([0.1, 0.2, 0.3])
    assert agent.rule.target_update_tau == 0.4
    assert agent.rule.target_update_period == 5
    assert agent.rule.gradient_clipping == 0.6
    assert agent.temperature.log_alpha.numpy() == pytest.approx(-0.7)


def transitions():
    """Four random ones."""
    rng = np.random.default_rng(1)
    obs, next_obs = rng.normal(size=(2, 4, 3)).astype(np.float32)
    action = rng.uniform(-1, 1, size=(4, 2)).astype(np.float32)
    one = np.ones(4, np.float32)  # also the step type MID
    return tf.nest.map_structure(tf.constant, Transition(one, obs, action, one, one, next_obs))


def agent_of(**values):
    params = params_with(actor_fc_layer_params=(4,), critic_joint_fc_layer_params=(4,), **values)
    train_step = tf.Variable(0, dtype=tf.int64)
    return params.agent_ctor(train_step, OBSERVATION, ACTION, ts.time_step_spec(OBSERVATION))


@pytest.mark.parametrize("algorithm, num_critics, delay", [("td3", 2, 3), ("ddpg", 1, 1)])
def test_algorithms_have_their_critics_delays_and_noise(algorithm, num_critics, delay):
    agent = agent_of(algorithm=algorithm, policy_delay=3, exploration_noise_std=0.3)
    assert agent.algorithm == algorithm
    assert len(agent.networks.critics) == num_critics
    assert agent.collect_policy.std == 0.3
    before = [variable.numpy() for variable in agent.networks.actor.variables]
    changed = []
    for _ in range(3):
        agent.train(transitions())
        now = [variable.numpy() for variable in agent.networks.actor.variables]
        changed.append(any((a != b).any() for a, b in zip(now, before, strict=True)))
        before = now
    assert changed == [(step + 1) % delay == 0 for step in range(3)]


def test_the_critics_of_tqc_and_crossq_are_as_their_settings_say():
    agent = agent_of(algorithm="tqc", tqc_critics=3, tqc_quantiles=7, tqc_dropped_quantiles=1)
    assert agent.algorithm == "tqc"
    assert [
        net.variables[-1].shape for net in agent.networks.critics + agent.networks.target_critics
    ] == [7] * 6
    agent = agent_of(algorithm="crossq")
    assert agent.algorithm == "crossq"
    assert (
        len(agent.networks.critics),
        agent.networks.target_critics,
        agent.rule.policy_delay,
    ) == (2, [], 3)
    assert agent_of(algorithm="crossq", policy_delay=1).rule.policy_delay == 1


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "tqc"},
        {"algorithm": "crossq"},
        {"critic_layer_norm": True, "critic_dropout_rate": 0.1, "policy_delay": 2},
    ],
    ids=["tqc", "crossq", "droq"],
)
def test_every_kind_of_critic_learns_the_rewards_of_episodes_that_end(values):
    tf.keras.utils.set_random_seed(0)
    agent = agent_of(**values, critic_learning_rate=0.01)
    batch = transitions()
    reward, over = tf.constant([1.0, 2.0, 3.0, 4.0]), tf.zeros(4)
    batch = batch._replace(reward=reward, discount=over)
    train = tf.function(agent.train, autograph=False)
    losses = [float(train(batch).extra["critic_loss"]) for _ in range(600)]
    info = train(batch).extra
    np.testing.assert_allclose(info["td_target"], (1 + 2 + 3 + 4) / 4, rtol=1e-6)
    assert sum(losses[-10:]) < 0.1 * sum(losses[:10])


@pytest.mark.parametrize(
    "values, message",
    [
        ({"algorithm": "crossq", "recurrent": True}, "'crossq' and recurrent is True"),
        ({"algorithm": "crossq", "critic_layer_norm": True}, "'crossq' and critic_layer_norm is T"),
        ({"critic_dropout_rate": 0.1}, "critic_dropout_rate is 0.1 and critic_layer_norm is False"),
        (
            {"algorithm": "tqc", "tqc_dropped_quantiles": 25},
            "is 25; expected less than tqc_quantiles .25.",
        ),
        ({"policy_delay": 2, "state_value_network": True}, "True and policy_delay is 2; expected"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(values, message):
    with pytest.raises(ConfigError, match=f"params.py: .*{message}"):
        params_with(**values).check("params.py")


@pytest.mark.parametrize(
    ("values", "unused"),
    [
        (
            {"algorithm": "tqc", "state_value_network": True},
            "state_value_network is True, which has no effect: algorithm is 'tqc'.",
        ),
        (
            {"algorithm": "xqc", "sac_log_alpha": 0.5},
            "sac_log_alpha is 0.5, which has no effect: algorithm is 'xqc'.",
        ),
        ({"tqc_quantiles": 50}, "tqc_quantiles is 50, which has no effect: algorithm is 'sac'."),
        (
            {"algorithm": "ddpg", "learn_alpha": False},
            "learn_alpha is False, which has no effect: algorithm is 'ddpg'.",
        ),
        (
            {"algorithm": "crossq", "exploration_noise_std": 0.2},
            "exploration_noise_std is 0.2, which has no effect: algorithm is 'crossq'.",
        ),
        ({"rnn_units": 64}, "rnn_units is 64, which has no effect: recurrent is False."),
        ({"rnn_type": "gru"}, "rnn_type is 'gru', which has no effect: recurrent is False."),
        (
            {"recurrent": True, "segment_len": 9, "recurrent_sequence_length": 5},
            "recurrent_sequence_length is 5, which has no effect: segment_len is 9.",
        ),
        (
            {"image_encoder": "simple", "preprocessing_combiner": len},
            "image_encoder is 'simple', which has no effect: there is a preprocessing_combiner.",
        ),
    ],
)
def test_a_setting_without_effect_is_noted(values, unused):
    assert params_with(**values).check("params.py") == [f"params.py: {unused}"]


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm": "tqc", "tqc_quantiles": 50, "sac_log_alpha": 0.0},
        {"algorithm": "crossq", "sac_log_alpha": 0.0},
        {"algorithm": "td3", "exploration_noise_std": 0.2},
        {"recurrent": True, "rnn_units": 64, "rnn_type": "gru", "recurrent_sequence_length": 5},
        {"recurrent": True, "rnn_units": 64, "segment_len": 9},
    ],
)
def test_a_setting_with_an_effect_needs_no_note(values):
    assert params_with(**values).check("params.py") == []


def test_an_agent_of_the_users_own_may_read_any_setting():
    class OwnAgent(Params):
        def agent_ctor(self, *args, **kwargs):
            raise AssertionError("not needed here")

    assert params_with(OwnAgent, tqc_quantiles=50, rnn_units=64).check("params.py") == []


def test_alpha_may_be_fixed_and_its_target_be_given():
    agent = agent_of(learn_alpha=False, target_entropy=-0.5, sac_log_alpha=-2.0)
    assert agent.temperature.target_entropy == pytest.approx(
        agent_of().temperature.target_entropy + 2 - 0.5
    )
    agent.train(transitions())
    assert float(agent.temperature.log_alpha) == -2


def test_learning_rates_fall_linearly_but_for_that_of_alpha():
    agent = agent_of(
        learning_rate_schedule="linear", num_iter=5, num_steps_per_iter=2,
        actor_learning_rate=0.1, critic_learning_rate=0.2, alpha_learning_rate=0.3,
    )  # fmt: skip
    optimizers = (agent.actor_optimizer, agent.critic_optimizer, agent.temperature.optimizer)
    for step in (0, 4, 10):
        agent.train_step_counter.assign(step)
        left = 1 - step / (5 * 2)
        rates = [float(optimizer.learning_rate) for optimizer in optimizers]
        assert rates == pytest.approx([0.1 * left, 0.2 * left, 0.3])
