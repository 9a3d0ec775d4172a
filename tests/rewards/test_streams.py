"""Reward streams of a run: rewards and discounts, and what is saved, taken over and refused."""

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_fakes import FakeReplay, make_checkpointer
from fakes import CountingEnv
from signal_fakes import Novelty, minibatch
from tf_agents.agents.random import random_agent

from tfagents_system.assembly import assemble
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.generations import generation_dir
from tfagents_system.data.transition import Transition
from tfagents_system.demonstrations.episode_file import episode_of
from tfagents_system.demonstrations.rows import rows_of
from tfagents_system.environments.time_left import TimeLeft
from tfagents_system.learning.held_samples import random_transitions
from tfagents_system.learning.initial_weights import initialize
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    """Small networks, given streams, and signals of the hook."""

    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)

    def __init__(self, reward_signals, own=(), **settings):
        super().__init__({"horizon": 10})
        self.reward_signals, self._own = reward_signals, list(own)
        for name, value in settings.items():
            setattr(self, name, value)

    def env_ctor(self, *args, seed=None, **kwargs):
        return CountingEnv()

    def reward_signals_ctor(self, obs_spec, action_spec):
        return self._own


SIGNALS = {
    "rnd": {"strength": 0.5, "encoding_size": 4},
    "extrinsic": {"strength": 2.0},
    "curiosity": {"encoding_size": 4},
}


def made(reward_signals=None, **settings):
    return assemble(Params(reward_signals or SIGNALS, **settings), CountingEnv())


def test_each_stream_gets_its_rewards_and_terminations_and_learns():
    streams = made(own=[Novelty(strength=3.0)]).reward_signals
    assert streams.names == ["curiosity", "extrinsic", "rnd", "novelty"]
    step = tf.function(streams)
    novelties = [(1 - 0) ** 2, (3 - 0) ** 2]
    of_environment = [r + 3 * n for r, n in zip([10, 20], novelties, strict=True)]
    first, metrics = step(minibatch())
    np.testing.assert_allclose(first.reward[0], 0)  # nothing is learned yet
    np.testing.assert_allclose(first.reward[1], [2 * r for r in of_environment])
    np.testing.assert_allclose(first.reward[2], 0)
    np.testing.assert_allclose(first.discount, [[1, 1], [0, 0], [1, 1]])
    np.testing.assert_allclose(metrics["extrinsic_reward"], sum(of_environment) / 2)
    of_signals = {"curiosity_forward_loss", "curiosity_inverse_loss", "rnd_loss", "novelty_loss"}
    of_rewards = {f"{name}_reward" for name in streams.names}
    assert metrics.keys() == of_signals | of_rewards
    second, later = step(minibatch())
    assert (second.reward.numpy()[[0, 2]] > 0).all()
    np.testing.assert_allclose(
        later["rnd_reward"], later["rnd_loss"], rtol=1e-5
    )  # without the strength
    np.testing.assert_allclose(second.reward[2], 0.5 * streams.signals["rnd"].reward(minibatch()),
                               rtol=0.3)  # after one more small step  # fmt: skip


def test_no_return_goes_on_where_no_time_is_left():
    """Their discounts are those of workers: 0 at the horizon, and at a termination before it."""
    params = Params(SIGNALS, time_aware=True)
    streams = assemble(params, TimeLeft(CountingEnv(), 10)).reward_signals
    observation = tf.constant([[3.0, 0.2], [3.0, 0.2], [3.0, 0.2]])
    after = tf.constant([[4.0, 0.1], [4.0, 0.1], [4.0, 0.0]])
    zeros, discount = tf.zeros([3]), tf.constant([1.0, 0.0, 0.0])
    step = Transition(zeros, observation, observation[:, :1], zeros, discount, after)
    curiosity, extrinsic, rnd = streams(step)[0].discount.numpy().tolist()
    assert extrinsic == [1, 0, 0]
    assert curiosity == rnd == [1, 1, 0]


def test_padding_does_not_count():
    streams = made().reward_signals
    step_type = tf.constant([1.0, 2.0])
    _, metrics = streams(minibatch()._replace(step_type=step_type))
    np.testing.assert_allclose(metrics["extrinsic_reward"], 10)


def test_networks_of_signals_see_what_the_agents_normalizer_makes_of_observations():
    assembly = made({"extrinsic": {}, "rnd": {}}, normalize_observations=True)
    normalizer = assembly.agent.networks.normalizer
    normalizer.mean.assign([5.0])
    rnd = assembly.reward_signals.signals["rnd"]
    rnd.has_learned.assign(1.0)
    _, metrics = assembly.reward_signals(minibatch())
    moved = minibatch()._replace(next_observation=minibatch().next_observation - 5)
    assert metrics["rnd_reward"] > 0
    fresh = made({"extrinsic": {}, "rnd": {}})
    for variable, value in zip(
        fresh.reward_signals.signals["rnd"].variables, rnd.variables, strict=True
    ):
        variable.assign(value)
    np.testing.assert_allclose(
        tf.reduce_mean(fresh.reward_signals.signals["rnd"].judged(moved)),
        tf.reduce_mean(rnd.judged(moved)), rtol=1e-6,
    )  # fmt: skip


def test_the_whole_train_step_of_an_assembly_reports_values_of_streams():
    assembly = made()
    transition, _ = assembly.reward_signals(minibatch())
    info = assembly.agent.train(transition).extra
    assert {"curiosity_value", "extrinsic_value", "rnd_value"} <= info.keys()
    assert all(np.isfinite(float(value)) for value in info.values())


def saved(assembly, root):
    """Trains twice and returns the folder of the checkpoint."""
    for _ in range(2):
        assembly.agent.train(assembly.reward_signals(minibatch())[0])
    replay = FakeReplay(root / ".reverb")
    saving = make_checkpointer(
        root, assembly.agent, assembly.train_step, replay, signals=assembly.reward_signals
    )
    saving.save()
    assert saving.wait(10)
    return generation_dir(root, 2)


def values_of(variables):
    return [variable.numpy() for variable in variables]


def assert_equal(some, others):
    for value, expected in zip(some, others, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_streams_are_restored_and_others_refused(tmp_path):
    before = made()
    saved(before, tmp_path)

    def restore(assembly):
        replay = FakeReplay(tmp_path / ".reverb")
        signals = assembly.reward_signals
        make_checkpointer(tmp_path, assembly.agent, assembly.train_step, replay, signals=signals
                          ).restore()  # fmt: skip

    now = made()
    restore(now)
    assert_equal(values_of(now.agent.variables), values_of(before.agent.variables))
    assert_equal(
        values_of(now.reward_signals.variables), values_of(before.reward_signals.variables)
    )
    optimizers = [m.reward_signals.signals["rnd"].optimizer for m in (now, before)]
    assert_equal(*(values_of(optimizer.variables()) for optimizer in optimizers))
    with pytest.raises(ConfigError, match="q_value_of_rnd.*in the checkpoint, nothing now"):
        restore(made({"extrinsic": {}}))


def test_a_new_stream_starts_fresh_and_the_others_with_their_weights(tmp_path):
    other = made({"extrinsic": {}, "rnd": {"encoding_size": 4}})
    folder = saved(other, tmp_path)
    now = made({"curiosity": {"encoding_size": 4}, "rnd": {"encoding_size": 4}, "extrinsic": {}})
    critic, of_other = (m.agent.networks.critics[0] for m in (now, other))
    fresh = values_of(critic.stream_layers["curiosity"].variables)
    text = initialize(now.agent, folder, now.streams)
    assert text.endswith("and of the learned signals rnd; new streams start fresh.")
    assert_equal(values_of(critic.stream_layers["curiosity"].variables), fresh)
    for mine, its in (
        (critic.value_layer, of_other.value_layer),
        (critic.hidden_layers[0], of_other.hidden_layers[0]),
        (critic.stream_layers["rnd"], of_other.stream_layers["rnd"]),
        (now.agent.networks.actor, other.agent.networks.actor),
        (now.streams.signals["rnd"], other.streams.signals["rnd"]),
    ):
        assert_equal(values_of(mine.variables), values_of(its.variables))
    assert float(now.streams.signals["curiosity"].has_learned) == 0


def test_streams_can_start_from_a_run_without_them(tmp_path):
    other = assemble(Params(None), CountingEnv())
    for _ in range(2):
        other.agent.train(minibatch())
    saving = make_checkpointer(
        tmp_path, other.agent, other.train_step, FakeReplay(tmp_path / ".reverb")
    )
    saving.save()
    assert saving.wait(10)
    now = made({"extrinsic": {}, "rnd": {}})
    assert "no signal; new streams" in initialize(
        now.agent, generation_dir(tmp_path, 2), now.streams
    )
    critic, of_other = (m.agent.networks.critics[1] for m in (now, other))
    assert_equal(values_of(critic.value_layer.variables), values_of(of_other.value_layer.variables))
    assert_equal(values_of(now.agent.networks.actor.variables),
                 values_of(other.agent.networks.actor.variables))  # fmt: skip


def test_signals_of_the_hook_need_the_environments_stream_and_other_names():
    with pytest.raises(ConfigError, match='returned novelty, .* must have "extrinsic"'):
        made({"rnd": {}}, own=[Novelty()])
    with pytest.raises(ConfigError, match="reward_signals has rnd, too; expected names that"):
        made({"rnd": {}, "extrinsic": {}}, own=[Novelty("rnd")])


def test_agents_of_ones_own_have_no_values_of_streams():
    params = Params({"rnd": {}})

    def agent_ctor(train_step, obs_spec, action_spec, time_step_spec):
        return random_agent.RandomAgent(time_step_spec, action_spec)

    params.agent_ctor = agent_ctor
    with pytest.raises(ConfigError, match="a RandomAgent, .* expected reward_signals = None"):
        assemble(params, CountingEnv())


def test_what_demonstrations_show_is_imitated():
    streams = {"gail": {"encoding_size": 4, "use_actions": True}, "extrinsic": {}}
    assembly = made(streams, demonstrations="not read here")
    places = np.arange(4, dtype=np.float32)[:, np.newaxis]
    arrays = {"observation": places, "action": 0.5 * np.ones([3, 1], np.float32),
              "reward": np.zeros(3, np.float32)}  # fmt: skip
    rows = rows_of([episode_of(arrays, "terminated")], assembly.codec, assembly.layout, 0.99)
    columns = [tf.constant(column) for column in rows.columns]
    draw = random_transitions(columns, rows.starts, assembly.reader)
    drawn = draw(tf.constant(50))
    assert set(drawn.observation[:, 0].numpy()) == {0, 1, 2}
    np.testing.assert_array_equal(drawn.next_observation, drawn.observation + 1)
    np.testing.assert_array_equal(drawn.discount, drawn.observation[:, 0] != 2)
    assembly.streams.imitate(draw)
    _, metrics = tf.function(assembly.reward_signals)(minibatch())
    assert {"gail_reward", "gail_loss", "gail_gradient_penalty", "gail_expert_estimate",
            "gail_policy_estimate"} <= metrics.keys()  # fmt: skip
    assert all(np.isfinite(float(value)) for value in metrics.values())
