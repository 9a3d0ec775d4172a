"""Reward signals: what they must have, and that a run of programs trains and saves them."""

import types

import numpy as np
import pytest
import tensorflow as tf
from fakes import CountingEnv
from signal_fakes import Novelty, minibatch

from tfagents_system.assembly import assemble
from tfagents_system.core.errors import ConfigError
from tfagents_system.rewards.signals import RewardSignals
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return CountingEnv()

    def reward_signals_ctor(self, obs_spec, action_spec):
        return [Novelty()]


def test_rewards_are_those_before_the_minibatch_is_learned_from():
    signals = RewardSignals([Novelty(), Novelty("other", strength=-1.0)])
    for compiled in (signals, tf.function(signals)):
        for signal in signals.signals:
            signal.mean.assign(1.0)
        transition, metrics = compiled(minibatch())
        of_signal = [(1 - 1) ** 2, (3 - 1) ** 2]
        expected = [r + 2 * s - s for r, s in zip([10, 20], of_signal, strict=True)]
        np.testing.assert_allclose(transition.reward, expected)
        np.testing.assert_allclose(metrics["novelty_reward"], sum(of_signal) / 2)
        np.testing.assert_allclose(metrics["other_loss"], ((1 + 3) / 2 - 1) ** 2)
        np.testing.assert_allclose(signals.signals[0].mean, 1 + 0.5 * ((1 + 3) / 2 - 1))


def test_sequences_are_rewarded_step_by_step():
    batch = tf.nest.map_structure(lambda leaf: leaf[tf.newaxis], minibatch())
    transition, _ = RewardSignals([Novelty()])(batch)
    np.testing.assert_allclose(transition.reward, [[10 + 2 * 1, 20 + 2 * 9]])


def test_signals_of_one_name_and_what_is_no_signal_are_refused():
    with pytest.raises(ConfigError, match="signals called novelty, novelty; expected names"):
        RewardSignals([Novelty(), Novelty()])
    with pytest.raises(ConfigError, match="returned a Module without strength, reward, train"):
        RewardSignals([tf.Module(name="nothing")])
    plain = types.SimpleNamespace(
        name="plain", strength=1.0, variables=[tf.Variable(0.0)], reward=None, train=None
    )
    with pytest.raises(ConfigError, match="a SimpleNamespace without the base class tf.Module;"):
        RewardSignals([plain])


def test_signals_come_from_the_hook_and_single_steps_alone_can_be_judged():
    params = Params({"horizon": 10})
    assert assemble(params, CountingEnv()).reward_signals.names == ["novelty"]
    params.n_step_returns = 3
    with pytest.raises(ConfigError, match="n_step_returns is 3, and .* expected n_step_returns"):
        assemble(params, CountingEnv())
    params.reward_signals_ctor = lambda *specs: None
    with pytest.raises(ConfigError, match="returned None; expected a list of signals"):
        assemble(params, CountingEnv())
    params.reward_signals_ctor = lambda *specs: []
    assert assemble(params, CountingEnv()).reward_signals is None


@pytest.mark.parametrize("settings", [{"algorithm": "xqc"}, {"normalize_rewards": True}])
def test_signals_are_refused_where_rewards_are_divided_by_the_spread_of_returns(settings):
    params = Params({"horizon": 10})
    for name, value in settings.items():
        setattr(params, name, value)
    with pytest.raises(ConfigError, match="expected normalize_rewards = False"):
        assemble(params, CountingEnv())
    params.normalize_rewards = False
    assert assemble(params, CountingEnv()).reward_signals.names == ["novelty"]
