import inspect

import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.sac_agent import SacAgent
from tfagents_system.core.attribute_names import HOOKS
from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.params_check import PUBLISHED
from tfagents_system.minitaur_params import TrainParams as MinitaurParams
from tfagents_system.networks.actor_networks import LstmActorNetwork, MlpActorNetwork
from tfagents_system.networks.critic_networks import LstmCriticNetwork, MlpCriticNetwork
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
    with pytest.raises(ConfigError, match="params.py: num_iter is 0; allowed is an integer >= 1"):
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


def test_recurrent_networks_have_an_lstm():
    params = params_with(recurrent=True)
    assert type(params.actor_ctor(OBSERVATION, ACTION)) is LstmActorNetwork
    assert type(params.critic_ctor(OBSERVATION, ACTION)) is LstmCriticNetwork


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
    assert type(agent) is SacAgent
    assert agent.train_step_counter is train_step
    optimizers = (agent.actor_optimizer, agent.critic_optimizer, agent.alpha_optimizer)
    assert [o.learning_rate for o in optimizers] == pytest.approx([0.1, 0.2, 0.3])
    assert agent.target_update_tau == 0.4
    assert agent.target_update_period == 5
    assert agent.gradient_clipping == 0.6
    assert agent.log_alpha.numpy() == pytest.approx(-0.7)
    assert agent.gamma == 0.8
