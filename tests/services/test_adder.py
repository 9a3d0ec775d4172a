import collections
import dataclasses
import gc
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED
from replay_fakes import UNLIMITED, EpisodeStepEnv, all_items, codec_of, serving
from reverb.cc import schema_pb2
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import make_batch
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.ports import free_port
from tfagents_system.core.waiting import wait_until
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.data.transition import Transition
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services import adder as adder_lib
from tfagents_system.services import chunks, slot_rows
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder
from tfagents_system.services.journal import Checkpoints, Journal, Stream, streams_with_journals
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats
from tfagents_system.services.replay_files import describe_items, stored_numbers
from tfagents_system.services.replay_limits import ReplayLimits

LAST = float(ts.StepType.LAST)


@pytest.fixture
def replay(tmp_path):
    with serving(tmp_path / "reverb") as running:
        yield running


def collect(environment, adder, num_episodes, horizon):
    policy = RandomPolicy(environment.action_spec(), seed=0)
    for _ in range(num_episodes):
        run_episode(environment, policy, horizon, adder.add)
        adder.end_episode()
        while adder.send():
            pass
    assert adder.is_confirmed(timeout_secs=60)


def test_stored_transitions_are_exactly_the_env_steps_and_never_cross_an_episode(replay):
    # Terminal after 3; time limit after 4; cut by the horizon after 5; terminal on the last step.
    environment = EpisodeStepEnv(ends=[(3, 0.0), (4, 1.0), (9, 0.0), (5, 0.0)])
    codec = codec_of(environment)
    collect(environment, Adder(replay.client(), codec), num_episodes=8, horizon=5)
    items = all_items(replay.client(), codec)

    lengths, last_discounts = [3, 4, 5, 5] * 2, [0, 1, 1, 0] * 2
    assert [t.observation.tolist() for t in items] == [
        [episode, step] for episode, length in enumerate(lengths) for step in range(length)
    ]
    for t in items:
        episode, step = map(int, t.observation)
        is_last = step == lengths[episode] - 1
        assert t.next_observation.tolist() == [episode, step + 1]  # the true last one, too
        assert t.reward == 100 * episode + step + 1
        assert t.discount == (last_discounts[episode] if is_last else 1)
        assert t.step_type == (ts.StepType.FIRST if step == 0 else ts.StepType.MID)
        assert t.action.shape == (1,) and np.all(np.abs(t.action) <= 1)


class CountingPolicy(RandomPolicy):
    """Its state counts the steps of an episode, with the batch axis that TensorFlow has."""

    def initial_state(self):
        return [[np.zeros([1, 2], np.float32)]]

    def action(self, time_step, state):
        action, _ = super().action(time_step, state)
        return action, [[state[0][0] + np.float32([1, 10])]]


def test_a_state_is_stored_with_the_step_before_which_the_policy_had_it(replay):
    environment = EpisodeStepEnv(ends=[(3, 0.0)])
    spec = codec_of(environment).spec
    layout = ItemLayout(2, is_sequence=True)
    codec = step_codec(spec.observation, spec.action, layout, [tf.TensorSpec([2], tf.float32)])
    adder = Adder(replay.client(), codec, layout)
    for policy in (CountingPolicy, RandomPolicy):
        run_episode(environment, policy(environment.action_spec(), seed=0), 3, adder.add)
        adder.end_episode()
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)
    items = all_items(replay.client(), codec, layout)
    assert [item.observation[:, 1].tolist() for item in items] == [[0, 1], [1, 2], [2, 3]] * 2
    states = [item.extras[0].tolist() for item in items]
    assert states[:3] == [[[0, 0], [1, 10]], [[1, 10], [2, 20]], [[2, 20], [3, 30]]]
    assert states[3:] == [[[0, 0], [0, 0]]] * 3  # a random policy has none


def test_the_discounted_return_so_far_is_stored_with_each_step_and_begins_anew_in_each_episode(
    replay,
):
    environment = EpisodeStepEnv(ends=[(3, 0.0), (2, 1.0)])
    spec = codec_of(environment).spec
    codec = step_codec(spec.observation, spec.action, SINGLE, stores_return=True)
    adder = Adder(replay.client(), codec, SINGLE, gamma=0.5)
    collect(environment, adder, num_episodes=2, horizon=9)
    items = all_items(replay.client(), codec, SINGLE)
    # The reward of step k of episode n is 100 n + k.
    assert [float(item.return_so_far) for item in items] == [
        1, 0.5 * 1 + 2, 0.5 * (0.5 * 1 + 2) + 3, 101, 0.5 * 101 + 102,
    ]  # fmt: skip


def test_blocks_join_what_a_worker_does_next_whatever_the_episode(replay):
    environment = EpisodeStepEnv(ends=[(3, 0.0), (4, 1.0)])
    codec = codec_of(environment)
    collect(environment, Adder(replay.client(), codec, ItemLayout(4)), num_episodes=5, horizon=9)
    items = all_items(replay.client(), codec, ItemLayout(4))

    # Blocks of four rows and the first of the next; an episode of 3 transitions is 4 rows.
    assert [item.observation.tolist() for item in items] == [
        [[0, 0], [0, 1], [0, 2]],
        [[1, 0], [1, 1], [1, 2], [1, 3]],
        [[2, 0], [2, 1], [2, 2]],  # after the last row of episode 1
        [[3, 0], [3, 1], [3, 2]],  # after the last of episode 2
        [[3, 3], [4, 0], [4, 1]],
    ]
    for item in items:  # a transition never joins two episodes
        np.testing.assert_array_equal(item.next_observation, item.observation + [0, 1])


@pytest.mark.parametrize(
    "layout, shared_bytes, max_bytes, num_rows_by_chunk",
    [
        # Blocks of 9 rows of 24 B; the last row waits.
        (ItemLayout(8), 9 * 24, 9 * 24, [9] * (2 * 49 // 8)),
        (ItemLayout(8), 5 * 9 * 24 - 1, 9 * 24, [4 * 9] * (2 * 49 // 8 // 4)),
        (ItemLayout(8), 1, 9 * 24, [9] * (2 * 49 // 8)),
        (ItemLayout(8), 1, 9 * 24 - 1, [3] * (2 * 49 // 8 * 3)),  # 8 rows fit, but do not divide 9
        (ItemLayout(8), 1, 1, [1] * (2 * 49 // 8 * 9)),
        (SINGLE, 1, 1, [8] * (2 * 49 // 8) + [2]),
    ],
)
def test_a_chunk_has_few_or_many_rows_so_that_the_server_needs_little_memory(
    replay, layout, shared_bytes, max_bytes, num_rows_by_chunk, monkeypatch
):
    monkeypatch.setattr(chunks, "BLOCK_CHUNK_BYTES", shared_bytes)
    monkeypatch.setattr(chunks, "MAX_CHUNK_BYTES", max_bytes)
    environment = EpisodeStepEnv(ends=[(48, 0.0)])
    adder = Adder(replay.client(), codec_of(environment), layout)
    policy = RandomPolicy(environment.action_spec(), seed=0)
    for _ in range(2):
        run_episode(environment, policy, 48, adder.add)
        adder.end_episode()
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)
    file = pathlib.Path(replay.client().checkpoint()) / "chunks.tfrecord"
    written = [
        schema_pb2.ChunkData.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(file), "ZLIB")
    ]

    # A set: where Reverb's threads race, it sends a chunk twice and the server keeps both.
    ranges = {(chunk.sequence_range.start, chunk.sequence_range.end) for chunk in written}
    assert [end - start + 1 for start, end in sorted(ranges)] == num_rows_by_chunk


def test_a_sequence_begins_at_each_step_and_is_padded_after_the_end_of_the_episode(replay):
    environment = EpisodeStepEnv(ends=[(5, 0.0), (2, 0.0), (3, 1.0), (9, 0.0), (1, 1.0)])
    codec = codec_of(environment)
    layout = ItemLayout(3, is_sequence=True)
    adder = Adder(replay.client(), codec, layout)
    collect(environment, adder, num_episodes=5, horizon=4)  # lengths 4, 2, 3, 4, 1
    items = all_items(replay.client(), codec, layout)

    steps = [(item.observation.tolist(), item.discount.tolist()) for item in items]
    assert steps == [
        ([[0, 0], [0, 1], [0, 2]], [1, 1, 1]),
        ([[0, 1], [0, 2], [0, 3]], [1, 1, 1]),  # cut by the horizon
        ([[0, 2], [0, 3], [0, 4]], [1, 1, 0]),  # then padding
        ([[0, 3], [0, 4], [0, 4]], [1, 0, 0]),
        ([[1, 0], [1, 1], [1, 2]], [1, 0, 0]),  # terminal, then padding
        ([[1, 1], [1, 2], [1, 2]], [0, 0, 0]),
        ([[2, 0], [2, 1], [2, 2]], [1, 1, 1]),  # time limit
        ([[2, 1], [2, 2], [2, 3]], [1, 1, 0]),
        ([[2, 2], [2, 3], [2, 3]], [1, 0, 0]),
        ([[3, 0], [3, 1], [3, 2]], [1, 1, 1]),
        ([[3, 1], [3, 2], [3, 3]], [1, 1, 1]),
        ([[3, 2], [3, 3], [3, 4]], [1, 1, 0]),
        ([[3, 3], [3, 4], [3, 4]], [1, 0, 0]),
        ([[4, 0], [4, 1], [4, 1]], [1, 0, 0]),  # time limit, then padding
    ]
    for item in items:
        is_padding = item.step_type == LAST
        np.testing.assert_array_equal(item.next_observation[~is_padding],
                                      item.observation[~is_padding] + [0, 1])  # fmt: skip
        np.testing.assert_array_equal(item.next_observation[is_padding],
                                      item.observation[is_padding])  # fmt: skip
        assert np.all(item.reward[is_padding] == 0)
    num_padding = [(item.step_type == LAST).sum() for item in items]
    assert num_padding == [0, 0, 1, 2] + [1, 2] + [0, 1, 2] + [0, 0, 1, 2] + [2]


@pytest.mark.parametrize("num_steps", [60, 7])
def test_the_last_step_of_an_episode_is_in_as_many_sequences_as_those_before(num_steps):
    environment = EpisodeStepEnv(ends=[(num_steps, 0.0)])
    codec, layout = codec_of(environment), ItemLayout(20, is_sequence=True)
    recorder = ItemRecorder()
    collect(environment, Adder(recorder, codec, layout), num_episodes=1, horizon=num_steps)
    items = [np.stack(column) for column in zip(*recorder.items, strict=True)]
    sequences = SampleReader(codec, layout).unpack(items)
    steps = sequences.observation[sequences.step_type != LAST][:, 1].astype(int)
    # Sequences begin at step 0 at the earliest, and 19 steps before at most.
    assert np.bincount(steps).tolist() == [min(step + 1, 20) for step in range(num_steps)]


@pytest.mark.parametrize("num_steps", [60, 21, 20, 7, 6, 5, 1])
def test_each_sequence_has_a_step_after_its_burn_in_and_none_is_missing(num_steps):
    environment, burn_in = EpisodeStepEnv(ends=[(num_steps, 0.0)]), 6
    codec, layout = codec_of(environment), ItemLayout(20, is_sequence=True, burn_in=burn_in)
    recorder = ItemRecorder()
    collect(environment, Adder(recorder, codec, layout), num_episodes=1, horizon=num_steps)
    items = [np.stack(column) for column in zip(*recorder.items, strict=True)]
    sequences = SampleReader(codec, layout).unpack(items)
    batch = make_batch(Transition(*map(tf.constant, sequences[:6]), (), ()), False, burn_in)
    is_trained = batch.valid.numpy() == 1
    assert is_trained.any(axis=1).all()
    steps = sequences.observation[is_trained][:, 1].astype(int)
    # By the sequence of the first step, and by those that begin 6 to 19 steps before, from 1 on.
    assert np.bincount(steps, minlength=num_steps).tolist() == [
        (step < 20) + max(0, step - 6 - max(1, step - 19) + 1) for step in range(num_steps)
    ]


def test_a_burst_of_sequences_has_few_items_although_padding_completes_many_at_once():
    environment = EpisodeStepEnv(ends=[(12, 0.0)])
    recorder = ItemRecorder()
    layout = ItemLayout(30, is_sequence=True)
    adder = Adder(recorder, codec_of(environment), layout, burst_length=5)
    run_episode(environment, RandomPolicy(environment.action_spec(), 0), 12, adder.add)
    adder.end_episode()
    num_items = [0]
    while adder.send():
        num_items.append(len(recorder.items))
    assert [*num_items, len(recorder.items)] == [0, 5, 10, 12]


SEGMENT = ItemLayout(3, is_sequence=True, is_segment=True)


def test_segments_follow_each_other_and_the_last_one_is_padded(replay):
    environment = EpisodeStepEnv(ends=[(7, 0.0), (2, 1.0), (6, 0.0), (3, 1.0)])
    codec = codec_of(environment)
    collect(environment, Adder(replay.client(), codec, SEGMENT), num_episodes=4, horizon=8)
    items = all_items(replay.client(), codec, SEGMENT)
    steps = [(item.observation.tolist(), item.discount.tolist()) for item in items]
    assert steps == [
        ([[0, 0], [0, 1], [0, 2]], [1, 1, 1]),
        ([[0, 3], [0, 4], [0, 5]], [1, 1, 1]),
        ([[0, 6], [0, 7], [0, 7]], [0, 0, 0]),  # terminal after 7, then padding
        ([[1, 0], [1, 1], [1, 2]], [1, 1, 0]),  # time limit after 2, then padding
        ([[2, 0], [2, 1], [2, 2]], [1, 1, 1]),
        ([[2, 3], [2, 4], [2, 5]], [1, 1, 0]),  # terminal where a segment ends
        ([[3, 0], [3, 1], [3, 2]], [1, 1, 1]),
    ]
    assert [(item.step_type == LAST).sum() for item in items] == [0, 0, 2, 1, 0, 0, 0]


def test_short_episodes_are_left_out_for_agents_that_do_not_mask_padding(replay):
    layout = ItemLayout(3, is_sequence=True, pads_episodes=False)
    environment = EpisodeStepEnv(ends=[(5, 0.0), (2, 0.0), (3, 1.0), (9, 0.0), (1, 1.0)])
    codec, lines = codec_of(environment), []
    adder = Adder(replay.client(), codec, layout, log=lines.append)
    collect(environment, adder, num_episodes=5, horizon=4)  # lengths 4, 2, 3, 4, 1
    items = all_items(replay.client(), codec, layout)
    assert [item.observation.tolist() for item in items] == [
        [[0, 0], [0, 1], [0, 2]],
        [[0, 1], [0, 2], [0, 3]],
        [[2, 0], [2, 1], [2, 2]],
        [[3, 0], [3, 1], [3, 2]],
        [[3, 1], [3, 2], [3, 3]],
    ]
    assert not any((item.step_type == LAST).any() for item in items)
    assert adder.num_left_out == 2
    (line,) = lines
    assert "an episode, or its rest, is shorter than 3 env steps and is left out" in line


def test_too_many_short_episodes_in_a_row_end_the_program(replay, monkeypatch):
    monkeypatch.setattr(slot_rows, "MOST_LEFT_OUT", 3)
    layout = ItemLayout(3, is_sequence=True, pads_episodes=False)
    lengths = [2, 2, 3, 1, 2, 2, 9]  # two in a row, then three
    environment = EpisodeStepEnv(ends=[(length, 0.0) for length in lengths])
    codec = codec_of(environment)
    adder = Adder(replay.client(), codec, layout, log=lambda line: None)
    with pytest.raises(ConfigError, match="The last 3 episodes were all shorter than 3 env steps"):
        collect(environment, adder, num_episodes=7, horizon=4)
    assert adder.num_left_out == 2 + 3


@pytest.mark.parametrize("reward, fault", [(np.nan, "not finite"), (-1e30, "beyond 1e+15")])
@pytest.mark.parametrize("layout", [SINGLE, ItemLayout(2, is_sequence=True)])
def test_a_step_that_does_not_fit_ends_the_episode_and_is_logged_once(
    replay, layout, reward, fault
):
    class FaultyEnv(EpisodeStepEnv):
        def _step(self, action):
            time_step = super()._step(action)
            if self._position == 3:
                time_step = time_step._replace(reward=np.float32(reward))
            return time_step

    environment, lines = FaultyEnv(ends=[(6, 0.0)]), []
    codec = codec_of(environment)
    adder = Adder(replay.client(), codec, layout, log=lines.append)
    collect(environment, adder, num_episodes=4, horizon=6)
    items = all_items(replay.client(), codec, layout)

    first_steps = [item.observation.reshape(-1, 2)[0].tolist() for item in items]
    kept = [0, 1]  # before the rejected third step
    assert first_steps == [[episode, step] for episode in range(4) for step in kept]
    assert all((np.abs(item.reward) < 1e15).all() for item in items)
    assert adder.rejected == collections.Counter({f"reward is {fault}": 4})
    assert lines == [
        f"Rejected a step: reward is {fault}. Its episode ends here; further ones are counted."
    ]


def test_a_burst_is_due_by_count_or_by_age(replay, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(adder_lib.time, "monotonic", lambda: now[0])
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    adder = Adder(replay.client(), codec_of(environment), burst_length=3, burst_secs=2.0)
    first = environment.reset()

    def add():
        adder.add(first, np.zeros(1, np.float32), environment.step(np.zeros(1, np.float32)))

    is_due = []
    for _ in range(4):
        is_due.append(adder.is_burst_due)
        add()
    assert is_due == [False, False, True, True]  # the first step of an episode is two rows
    adder.send()
    assert not adder.is_burst_due
    now[0] += 60  # nothing is unsent, so nothing ages
    assert not adder.is_burst_due
    add()
    now[0] += 1.5
    add()
    assert not adder.is_burst_due
    now[0] += 0.5  # the older of the two is 2 s old
    assert adder.is_burst_due
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)
    assert experience_stats(replay.client(), timeout_secs=60) == (6, 6)


def test_nothing_reaches_the_table_before_send(replay):
    environment = EpisodeStepEnv()
    adder = Adder(replay.client(), codec_of(environment))
    run_episode(environment, RandomPolicy(environment.action_spec(), 0), 3, adder.add)
    assert adder.is_confirmed(timeout_secs=60)
    assert experience_stats(replay.client(), timeout_secs=60) == (0, 0)


def test_the_limiter_holds_collection_until_learning_has_followed(tmp_path):
    # inserts x 1 sample - samples <= min_size x 1 + error_buffer = 4 + 2
    limits = ReplayLimits(capacity=100, min_size=4, samples_per_insert=1.0, error_buffer=2.0)
    environment = EpisodeStepEnv(ends=[(8, 0.0)])
    codec = codec_of(environment)
    with serving(tmp_path / "reverb", limits) as replay:
        adder = Adder(replay.client(), codec)
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 8, adder.add)
        adder.send()
        wait_until(
            lambda: experience_stats(replay.client(), timeout_secs=60) == (6, 6), 60, "six items"
        )
        assert not adder.is_confirmed(timeout_secs=0.3)
        assert experience_stats(replay.client(), timeout_secs=60) == (6, 6)
        for _ in replay.client().sample("experience", 2, emit_timesteps=False):
            pass
        assert adder.is_confirmed(timeout_secs=60)
        assert experience_stats(replay.client(), timeout_secs=60) == (8, 8)


def test_an_adder_that_is_held_back_can_be_left_behind(tmp_path):
    limits = ReplayLimits(capacity=100, min_size=4, samples_per_insert=1.0, error_buffer=2.0)
    environment = EpisodeStepEnv(ends=[(8, 0.0)])
    with serving(tmp_path / "reverb", limits) as replay:
        adder = Adder(replay.client(), codec_of(environment))
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 8, adder.add)
        adder.send()
        assert not adder.is_confirmed(timeout_secs=0.1)
        gc.collect()  # so that what earlier tests have left is not measured
        started = time.monotonic()
        del adder
        gc.collect()
        assert time.monotonic() - started < 5


@pytest.mark.system
def test_what_was_not_confirmed_reaches_a_server_that_comes_back(tmp_path):
    limits = dataclasses.replace(UNLIMITED, min_size=1)
    environment = EpisodeStepEnv(ends=[(4, 0.0)])
    codec = codec_of(environment)
    policy = RandomPolicy(environment.action_spec(), 0)
    with serving(tmp_path / "before", limits) as replay:
        adder = Adder(replay.client(), codec)
        run_episode(environment, policy, 4, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
    adder.end_episode()
    run_episode(environment, policy, 4, adder.add)
    adder.send()
    assert not adder.is_confirmed(timeout_secs=0.2)
    with serving(tmp_path / "after", limits, port=replay.port) as replay:
        assert adder.is_confirmed(timeout_secs=60)
        observations = [t.observation.tolist() for t in all_items(replay.client(), codec)]
    assert observations == [[1, 0], [1, 1], [1, 2], [1, 3]]


class CountingWriter:
    """Hands every call on and counts it."""

    def __init__(self, writer):
        self._writer = writer
        self.calls = collections.Counter()

    def __getattr__(self, name):
        def call(*arguments):
            self.calls[name] += 1
            return getattr(self._writer, name)(*arguments)

        return call


@pytest.mark.parametrize(
    "layout, num_rows, num_items",
    [
        (SINGLE, 40 + 1, 40),
        (ItemLayout(8), 40 / 8 * (8 + 1), 40 / 8),
        (ItemLayout(5, is_sequence=True), 40 + 1 + 4, 40),
    ],
)
def test_a_row_costs_one_call_and_an_item_one_more(replay, layout, num_rows, num_items):
    environment = EpisodeStepEnv(ends=[(40, 0.0)])
    adder = Adder(replay.client(), codec_of(environment), layout)
    writer = adder._cpp_writer = CountingWriter(adder._cpp_writer)
    collect(environment, adder, num_episodes=1, horizon=40)
    assert writer.calls == {"Append": num_rows, "CreateItem": num_items}
    assert experience_stats(replay.client(), timeout_secs=60)[1] == num_items


@pytest.mark.parametrize(
    "layout", [SINGLE, ItemLayout(4), ItemLayout(3, is_sequence=True), SEGMENT]
)
def test_what_a_crashed_server_had_confirmed_is_there_again_and_once(tmp_path, layout):
    """The server is lost with all that came after its checkpoint, and with it the worker."""
    environment = EpisodeStepEnv(ends=[(5, 0.0), (2, 0.0), (9, 1.0)])
    codec, port, folder = codec_of(environment), free_port(), tmp_path / "journals"
    streams = iter([Stream(7, 1), Stream(7, 2), Stream(7, 5)])

    def make_adder(replay):
        journal = Journal(folder, next(streams), codec.columns, layout.rows, 10**6, UNRIVALLED)
        return Adder(replay.client(), codec, layout, journal)

    def checkpoint(replay):
        path = pathlib.Path(replay.client().checkpoint())
        return path, stored_numbers(describe_items(path, EXPERIENCE_TABLE, layout.row_stride))

    with serving(tmp_path / "first", port=port) as replay:
        collect(environment, make_adder(replay), num_episodes=4, horizon=9)
        restore_from, older = checkpoint(replay)
        collect(environment, make_adder(replay), num_episodes=4, horizon=9)
        expected = [t.observation.tolist() for t in all_items(replay.client(), codec, layout)]
    with serving(tmp_path / "second", port=port, restore_from=restore_from) as replay:
        num_lost = len(expected) - len(all_items(replay.client(), codec, layout))
        adder = make_adder(replay)
        collect(environment, adder, num_episodes=1, horizon=9)
        _, newest = checkpoint(replay)
        gone = {Stream(7, 1), Stream(7, 2)}
        assert gone < streams_with_journals(folder)
        for _ in adder.send_lost(Checkpoints(newest, older, gone)):
            assert adder.is_confirmed(timeout_secs=60)
        items = [t.observation.tolist() for t in all_items(replay.client(), codec, layout)]
        assert adder.num_recovered == num_lost > 0
        assert list(adder.send_lost(Checkpoints(checkpoint(replay)[1], newest, set()))) == []
    one_more = [item for item in items if item not in expected]
    assert all(np.ravel(item)[0] == 8 for item in one_more)  # of the ninth episode
    assert sorted(items) == sorted(expected + one_more)
