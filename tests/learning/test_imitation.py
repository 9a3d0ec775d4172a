"""Behavioral cloning alone: its statistics, its losses, and what it trains."""

import numpy as np
import pytest
import tensorflow as tf
import tree
from sac_fakes import Params
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import stored_state_spec
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.demonstrations.rows import rows_of
from tfagents_system.learning.imitation import Imitation

OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ACTION = tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1, "action")
NUM_STEPS = 300


def record(folder, seed, num_episodes=4, length=40):
    """Episodes with observations around (5, -2), and actions tanh(o - (5, -2))."""
    rng, recorder = np.random.default_rng(seed), Recorder(folder)
    center = np.float32([5, -2])
    for _ in range(num_episodes):
        observations = rng.normal(center, 1, [length + 1, 2]).astype(np.float32)
        recorder.reset(observations[0])
        for step, observation in enumerate(observations[1:], 1):
            action = np.tanh(observations[step - 1] - center)
            recorder.step(action, observation, 0.0, False, step == length)
    return read_demonstrations(folder)


def imitation_of(tmp_path, **settings):
    tf.keras.utils.set_random_seed(1)
    params = Params(
        actor_fc_layer_params=(16,), critic_joint_fc_layer_params=(8,), rnn_units=8,
        train_batch_size=32, actor_learning_rate=1e-2, recurrent_sequence_length=5, **settings,
    )  # fmt: skip
    params.check("params.py")
    train_step = tf.Variable(0, dtype=tf.int64)
    agent = params.agent_ctor(train_step, OBSERVATION, ACTION, ts.time_step_spec(OBSERVATION))
    layout = ItemLayout.from_settings(params)
    codec = step_codec(OBSERVATION, ACTION, layout, stored_state_spec(agent, params))
    learned, held_out = (record(tmp_path / str(seed), seed) for seed in (1, 2))
    rows, held_rows = (rows_of(episodes, codec, layout, 0.99) for episodes in (learned, held_out))
    reader = SampleReader(codec, layout)
    imitation = Imitation(agent, reader, rows, held_rows, NUM_STEPS, params.train_batch_size)
    return agent, imitation, learned, held_out


def test_the_held_out_loss_is_the_mean_over_all_of_their_env_steps(tmp_path):
    agent, imitation, _, held_out = imitation_of(tmp_path, algorithm="td3")
    observations = np.concatenate([e.observations["observation"][:-1] for e in held_out])
    actions = np.concatenate([e.actions["action"] for e in held_out])
    policy_step = agent.policy.action(ts.restart(tf.constant(observations), len(observations)))
    expected = np.square(policy_step.action - actions).sum(axis=1).mean()
    np.testing.assert_allclose(imitation.held_out_loss(), expected, rtol=1e-5)


def test_the_normalizer_has_the_statistics_of_all_that_is_learned_from(tmp_path):
    agent, imitation, learned, _ = imitation_of(tmp_path, normalize_observations=True)
    observations = np.concatenate([e.observations["observation"][:-1] for e in learned])
    normalizer = agent.networks.normalizer
    assert float(normalizer.count) == 4 * 40
    np.testing.assert_allclose(normalizer.mean, observations.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.variance, observations.var(axis=0), rtol=1e-4)
    imitation.train(10)
    assert float(normalizer.count) == 4 * 40


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "sac", "normalize_observations": True},
        {"algorithm": "crossq"},
        {"algorithm": "sac", "recurrent": True},
    ],
    ids=str,
)
def test_both_losses_fall_and_only_the_actor_is_trained(tmp_path, settings):
    agent, imitation, *_ = imitation_of(tmp_path, **settings)
    critics = [critic.variables for critic in agent.networks.critics]
    before = tree.map_structure(lambda variable: variable.numpy(), critics)
    first = imitation.train(1), imitation.held_out_loss()
    imitation.train(NUM_STEPS - 51)
    last = imitation.train(50), imitation.held_out_loss()
    assert last[0] < first[0] / 4 and last[1] < first[1] / 4
    assert int(agent.train_step_counter) == NUM_STEPS
    tree.map_structure(np.testing.assert_array_equal, before, critics)


def test_the_learning_rate_falls_to_zero_over_its_own_train_steps_alone(tmp_path):
    # A run would end after a tenth of them, and its own rates would fall until then.
    agent, imitation, *_ = imitation_of(
        tmp_path, num_iter=1, num_steps_per_iter=NUM_STEPS // 10, learning_rate_schedule="linear"
    )
    rate = imitation._cloning.optimizer._decayed_lr
    for train_step in (0, NUM_STEPS // 2, NUM_STEPS):
        agent.train_step_counter.assign(train_step)
        expected = 1e-2 * (1 - train_step / NUM_STEPS)
        np.testing.assert_allclose(rate(tf.float32), expected, rtol=1e-5, atol=1e-9)


def test_a_shared_summarizer_is_trained_too_as_no_critic_does_that(tmp_path):
    agent, imitation, *_ = imitation_of(tmp_path, recurrent=True, share_summarizer=True)
    summarizer = agent.networks.summarizer.trainable_variables
    before = [variable.numpy() for variable in summarizer]
    imitation.train(5)
    pairs = zip(before, summarizer, strict=True)
    assert all((one != other.numpy()).any() for one, other in pairs)


def test_after_its_last_step_nothing_changes(tmp_path):
    agent, imitation, *_ = imitation_of(tmp_path, algorithm="td3")
    imitation.train(NUM_STEPS)
    before = [variable.numpy() for variable in agent.networks.actor.variables]
    imitation.train(10)
    for one, other in zip(before, agent.networks.actor.variables, strict=True):
        np.testing.assert_array_equal(one, other)
