"""Samples of demonstrations equal those that a worker's adder makes of the same episodes."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tree
from fakes import CountingEnv
from replay_fakes import EpisodeStepEnv, serving

from tfagents_system.assembly import assemble
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.demonstrations.rows import rows_of
from tfagents_system.environments.time_left import TimeLeft
from tfagents_system.learning.held_demonstrations import held_rows
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.train_params_base import TrainParamsBase

HORIZON = 6
ENDS = [(3, 0.0), (4, 1.0), (9, 0.0), (1, 0.0), (6, 0.0), (2, 1.0)]
LAYOUTS = [
    SINGLE,
    ItemLayout(2),
    ItemLayout(2, n_step=3),
    ItemLayout(3, is_sequence=True),
    ItemLayout(4, is_sequence=True, is_segment=True, burn_in=1),
]


class Recording:
    """Passes env steps to an adder and a recorder."""

    def __init__(self, adder, recorder):
        self._adder, self._recorder = adder, recorder
        self._num_steps = 0

    def add(self, time_step, action, next_time_step, state):
        if self._num_steps == 0:
            self._recorder.reset(time_step.observation)
        self._num_steps += 1
        is_cut = next_time_step.is_last() or self._num_steps == HORIZON
        is_terminal = float(next_time_step.discount) == 0
        reward = next_time_step.reward
        self._recorder.step(action, next_time_step.observation, reward, is_terminal, is_cut)
        if is_cut:
            self._num_steps = 0
        return self._adder.add(time_step, action, next_time_step, state)


def both(tmp_path, layout):
    """The samples in the replay buffer and those of the recorded episodes, each with its count."""
    environment = EpisodeStepEnv(ENDS)
    specs = environment.observation_spec(), environment.action_spec()
    states = [tf.TensorSpec([2], tf.float32)] if layout.is_sequence else ()
    codec = step_codec(*specs, layout, states, stores_return=True)
    reader = SampleReader(codec, layout, gamma=0.5)
    with serving(tmp_path / "reverb") as replay:
        adder = Adder(replay.client(), codec, layout, gamma=0.5)
        recording = Recording(adder, Recorder(tmp_path / "demos"))
        policy = RandomPolicy(environment.action_spec(), seed=0)
        for _ in range(2 * len(ENDS)):
            run_episode(environment, policy, HORIZON, recording.add)
            adder.end_episode()
            adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        num_items = replay.client().server_info(timeout=5)[EXPERIENCE_TABLE].current_size
        items = {}
        while len(items) < num_items:
            (sample,) = replay.client().sample(EXPERIENCE_TABLE, 1, emit_timesteps=False)
            items[sample.info.key] = sample.data
    stored = collections.Counter(
        sample_at(reader, item, row)
        for item in items.values()
        for row in np.flatnonzero(reader.are_samples([tf.constant(c[np.newaxis]) for c in item]))
    )
    episodes = read_demonstrations(tmp_path / "demos")
    rows = rows_of(episodes, codec, layout, gamma=0.5)
    held = collections.Counter(sample_at(reader, rows.columns, start) for start in rows.starts)
    return stored, held


def sample_at(reader, columns, row):
    """The sample that begins at a row, as a hashable value."""
    transition = reader.unpack([c[np.newaxis, row : row + reader.layout.window] for c in columns])
    return tuple(leaf.tobytes() for leaf in tree.flatten(transition))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_samples_are_those_of_the_replay_buffer(layout, tmp_path):
    stored, held = both(tmp_path, layout)
    waiting = held.keys() - stored.keys()  # of the adder's last block, which is not full
    assert len(waiting) <= (layout.rows if layout.is_block else 0)
    assert {sample: held[sample] for sample in held.keys() - waiting} == stored


def test_without_padding_short_episodes_are_left_out_as_workers_leave_them_out(tmp_path):
    stored, held = both(tmp_path, ItemLayout(4, is_sequence=True, pads_episodes=False))
    assert held == stored
    lengths = [min(length, HORIZON) for length, _ in ENDS]
    assert len(held) == 2 * sum(max(0, length - 4 + 1) for length in lengths)


DICT = {"place": tf.TensorSpec([1], tf.float32), "time_left": tf.TensorSpec([1], tf.float32)}


@pytest.mark.parametrize(("time_aware", "of_last"), [(True, [1, 1, 0]), (False, [1, 1, 1])])
@pytest.mark.parametrize("kind", ["vector", "dict"])
def test_an_episode_that_is_cut_where_no_time_is_left_has_terminated(
    tmp_path, kind, time_aware, of_last
):
    """As workers store it: discount 0 at the horizon of a `time_aware` environment."""
    shares = [[1], [2 / 3], [1 / 3], [0]]

    def observation(step):
        if kind == "dict":
            return {"place": np.float32([5]), "time_left": np.float32(shares[step])}
        return np.float32([5, *shares[step]])

    recorder = Recorder(tmp_path)
    for last in (2, 3):  # env steps of the episodes
        recorder.reset(observation(0))
        for step in range(1, last + 1):
            recorder.step([0.0], observation(step), 1.0, False, step == last)
    spec = DICT if kind == "dict" else tf.TensorSpec([2], tf.float32)
    codec, layout = step_codec(spec, tf.TensorSpec([1], tf.float32), SINGLE), SINGLE
    rows = rows_of(read_demonstrations(tmp_path), codec, layout, 1.0, time_aware)
    windows = [np.stack([c[s : s + layout.window] for s in rows.starts]) for c in rows.columns]
    discounts = SampleReader(codec, layout).unpack(windows).discount
    assert discounts.tolist() == [1, 1, *of_last]


class TimeAware(TrainParamsBase):
    time_aware = True
    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("it is given")


def test_the_rows_of_a_learner_follow_its_settings(tmp_path):
    params = TimeAware({"horizon": 2})
    made = assemble(params, TimeLeft(CountingEnv(), 2))
    recorder = Recorder(tmp_path)
    recorder.reset(np.float32([0, 1]))
    recorder.step([0.0], np.float32([1, 1 / 2]), 1.0, False, False)
    recorder.step([0.0], np.float32([2, 0]), 1.0, False, True)
    rows = held_rows(read_demonstrations(tmp_path), made, params)
    windows = [np.stack([c[s : s + made.layout.window] for s in rows.starts]) for c in rows.columns]
    assert made.reader.unpack(windows).discount.tolist() == [1, 0]


def test_frames_are_stacked_whether_the_file_has_single_or_stacked_ones(tmp_path):
    layout = ItemLayout(1, frame_stack=3)
    images = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones([1, 12, 12, 1], np.uint8)
    history = np.maximum(np.arange(5)[:, None] + [-2, -1, 0], 0)
    stacked = np.moveaxis(images[history][..., 0], 1, -1)
    action = tf.TensorSpec([1], tf.float32)
    codec = step_codec(tf.TensorSpec([12, 12, 3], tf.uint8), action, layout)
    reader = SampleReader(codec, layout)
    gray = images[..., 0]  # of an environment without that axis, which stacking adds
    for name, observations in (("single", images), ("stacked", stacked), ("gray", gray)):
        recorder = Recorder(tmp_path / name)
        recorder.reset(observations[0])
        for step in range(1, 5):
            recorder.step([0.0], observations[step], 0.0, step == 4, False)
        rows = rows_of(read_demonstrations(tmp_path / name), codec, layout, 1.0)
        windows = [
            np.stack([column[start : start + layout.window] for start in rows.starts])
            for column in rows.columns
        ]
        transitions = reader.unpack(windows)
        np.testing.assert_array_equal(transitions.observation, stacked[:-1])
        np.testing.assert_array_equal(transitions.next_observation, stacked[1:])
        assert transitions.discount.tolist() == [1, 1, 1, 0]


def test_gray_frames_of_a_stacking_buffer_are_learned_without_stacking(tmp_path):
    frames = np.arange(4, dtype=np.uint8)[:, None, None] * np.ones([1, 24, 24], np.uint8)
    recorder = Recorder(tmp_path)
    recorder.reset(frames[0][..., np.newaxis])
    for step in range(1, 4):
        recorder.step([0.0], frames[step][..., np.newaxis], 0.0, step == 3, False)
    codec = step_codec(tf.TensorSpec([24, 24], tf.uint8), tf.TensorSpec([1], tf.float32), SINGLE)
    rows = rows_of(read_demonstrations(tmp_path), codec, SINGLE, 1.0)
    windows = [np.stack([c[s : s + SINGLE.window] for s in rows.starts]) for c in rows.columns]
    transitions = SampleReader(codec, SINGLE).unpack(windows)
    np.testing.assert_array_equal(transitions.next_observation, frames[1:])
