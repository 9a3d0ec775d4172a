"""From env steps through the codec, blocks and the pool to transitions, whatever the nest is."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.data.codec import Codec
from tfagents_system.data.frames import newest_frames, single_frame_spec
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import FIRST, LAST, MID, Step, step_spec
from tfagents_system.learning.sampling_pool import SamplingPool

SCALAR = tf.TensorSpec([], tf.float32)
RICH_SPEC = step_spec(
    observation_spec={
        "camera": tf.TensorSpec([2, 2, 1], tf.uint8),
        "action_mask": tf.TensorSpec([3], tf.bool),
        "joints": tf.TensorSpec([2], tf.float32),
    },
    action_spec={"gear": tf.TensorSpec([], tf.int32), "throttle": tf.TensorSpec([1], tf.float32)},
    reward_spec={"task": SCALAR, "curiosity": SCALAR},
    extras_spec={"policy_state": tf.TensorSpec([2], tf.float32)},
    stores_return=True,
)
CODEC = Codec(RICH_SPEC)


def rich_step(episode, index):
    """Row `index` of an episode; every leaf tells which row it is."""
    number = 10 * episode + index
    return Step(
        np.float32(FIRST if index == 0 else MID),
        {
            "camera": np.full([2, 2, 1], number, np.uint8),
            "action_mask": np.array([number % 2 == 0, True, False]),
            "joints": np.float32([episode, index]),
        },
        {"gear": np.int32(number), "throttle": np.float32([-number])},
        {"task": np.float32(100 + number), "curiosity": np.float32(200 + number)},
        np.float32(1),
        {"policy_state": np.float32([number, 0.5])},
        np.float32(300 + number),
    )


def items_of(rows, layout, codec=CODEC):
    """Columns [N, rows, size] of the blocks that a worker makes of `rows`."""
    packed = [codec.pack(row) for row in rows]
    blocks = [
        packed[first : first + layout.rows]
        for first in range(0, len(packed) - layout.rows + 1, layout.length)
    ]
    return [
        tf.constant(np.stack([[row[column] for row in block] for block in blocks]))
        for column in range(len(codec.columns))
    ]


def test_any_nest_passes_through_blocks_and_the_pool_unchanged():
    rows = [rich_step(episode, index) for episode in range(2) for index in range(4 - episode)]
    layout = ItemLayout(2)
    items = items_of(rows, layout)  # rows 0 to 2, 2 to 4, 4 to 6
    reader = SampleReader(CODEC, layout)
    pool = SamplingPool(reader, capacity=6, num_initial=6, num_fresh=6, batch_size=200)
    pool.add(items)
    transition = tf.nest.map_structure(np.array, reader.unpack(pool.draw()))

    starts = transition.observation["joints"]
    assert set(map(tuple, starts)) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)}
    number = starts @ np.float32([10, 1])
    np.testing.assert_array_equal(transition.next_observation["joints"], starts + [0, 1])
    np.testing.assert_array_equal(transition.observation["camera"][:, 1, 1, 0], number)
    np.testing.assert_array_equal(transition.next_observation["camera"][:, 0, 1, 0], number + 1)
    np.testing.assert_array_equal(transition.observation["action_mask"][:, 0], number % 2 == 0)
    np.testing.assert_array_equal(transition.action["gear"], number + 1)
    np.testing.assert_array_equal(transition.action["throttle"][:, 0], -(number + 1))
    np.testing.assert_array_equal(transition.reward["task"], 100 + number + 1)
    np.testing.assert_array_equal(transition.reward["curiosity"], 200 + number + 1)
    np.testing.assert_array_equal(transition.extras["policy_state"][:, 0], number)
    np.testing.assert_array_equal(transition.return_so_far, 300 + number + 1)
    assert transition.action["gear"].dtype == np.int32
    assert transition.observation["action_mask"].dtype == bool
    assert transition.observation["camera"].dtype == np.uint8


VECTOR = step_spec(tf.TensorSpec([1], tf.float32), tf.TensorSpec([1], tf.float32))


def vector_steps(step_types):
    """Rows with these step types; row k observes [k] and its action and reward are k."""
    for number, step_type in enumerate(step_types):
        value = np.float32([number])
        yield Step(np.float32(step_type), value, value, np.float32(number), np.float32(1))


@pytest.mark.parametrize("is_numpy", [False, True])
def test_transitions_of_a_sequence_that_ended_early_are_marked_as_padding(is_numpy):
    codec = Codec(VECTOR)
    rows = np.stack([codec.pack(row)[0] for row in vector_steps([FIRST, MID, LAST, LAST])])
    reader = SampleReader(codec, ItemLayout(3, is_sequence=True))
    transition = reader.unpack([rows[np.newaxis] if is_numpy else tf.constant(rows[np.newaxis])])
    assert np.array(transition.step_type).tolist() == [[FIRST, LAST, LAST]]
    assert np.array(transition.observation).tolist() == [[[0], [1], [2]]]
    assert np.array(transition.next_observation).tolist() == [[[1], [2], [3]]]
    assert np.array(transition.reward).tolist() == [[1, 2, 3]]


STACK = 3
FRAMES = tf.TensorSpec([1, 1, 2 * STACK], tf.uint8)  # two channels


def frame_steps(lengths):
    """The rows of episodes of these lengths; a frame holds [episode, index]."""
    for episode, length in enumerate(lengths):
        for index in [0] * STACK + list(range(1, length + 1)):
            yield Step(
                np.float32(FIRST if index == 0 else MID),
                np.uint8([[[episode, index]]]),
                np.zeros(1, np.float32),
                np.float32(index),
                np.float32(1),
            )


def stacked(episode, index):
    """What an agent observes: [STACK, 2] frames, the first one repeated."""
    return [[episode, max(0, index - age)] for age in reversed(range(STACK))]


def test_frames_are_stored_once_and_stacked_when_a_minibatch_is_drawn():
    lengths = [1, 4, 2, 7, 3]
    codec = Codec(step_spec(single_frame_spec(FRAMES, STACK), tf.TensorSpec([1], tf.float32)))
    layout = ItemLayout(4, frame_stack=STACK)
    items = items_of(list(frame_steps(lengths)), layout, codec)
    num_items = items[0].shape[0]
    assert num_items == (sum(lengths) + STACK * len(lengths) - STACK) // 4
    reader = SampleReader(codec, layout)
    pool = SamplingPool(reader, 4 * num_items, 4 * num_items, 4 * num_items, batch_size=300)
    pool.add(items)
    transition = reader.unpack(pool.draw())
    assert transition.observation.shape == [300, 1, 1, 2 * STACK]
    observed = transition.observation.numpy().reshape(-1, STACK, 2).tolist()
    reached = transition.next_observation.numpy().reshape(-1, STACK, 2).tolist()
    pairs = set()
    for before, after in zip(observed, reached, strict=True):
        episode, index = before[-1]
        assert before == stacked(episode, index)
        assert after == stacked(episode, index + 1)
        pairs.add((episode, index))
    everything = [(e, i) for e, length in enumerate(lengths) for i in range(length)]
    in_whole_blocks = num_items * 4 + STACK  # rows
    numbers = [sum(lengths[:e]) + STACK * (e + 1) + i + 1 for e, i in everything]
    expected = {p for p, row in zip(everything, numbers, strict=True) if row <= in_whole_blocks}
    assert pairs == expected


def test_only_the_newest_frame_of_an_image_is_stored():
    spec = single_frame_spec({"camera": FRAMES, "joints": tf.TensorSpec([4], tf.float32)}, STACK)
    assert spec["camera"].shape == [1, 1, 2]
    observation = {"camera": np.arange(6, dtype=np.uint8)[None, None], "joints": np.zeros(4)}
    frames = newest_frames(observation, spec)
    assert frames["camera"].tolist() == [[[4, 5]]]
    assert frames["joints"].shape == (4,)


def test_single_transitions_are_samples_as_they_are():
    reader = SampleReader(Codec(VECTOR), SINGLE)
    assert reader.are_samples([tf.zeros([3, 2, 5])]).numpy().tolist() == [[True]] * 3


GAMMA = 0.5


def n_step_transitions(n_step, lengths, terminal, is_numpy=False):
    """Transitions of episodes of these lengths, by (episode, index) of their first step.

    Row `index` of an episode observes [episode, index]; its reward is 10 episode + index.
    """
    spec = step_spec(tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.float32))
    codec, layout = Codec(spec), ItemLayout(2, n_step=n_step)
    rows = []
    for episode, length in enumerate(lengths):
        for index in range(length + 1):
            is_end = index == length and episode in terminal
            number = np.float32(10 * episode + index)
            rows.append(
                Step(
                    np.float32(MID if index else FIRST), np.float32([episode, index]),
                    number[None], number, np.float32(not is_end),
                )
            )  # fmt: skip
    items = items_of(rows, layout, codec)
    assert items[0].shape[1] == 2 + n_step  # rows
    reader = SampleReader(codec, layout, GAMMA)
    chosen = np.argwhere(reader.are_samples(items).numpy())
    windows = [
        np.stack([column.numpy()[i, row : row + layout.window] for i, row in chosen])
        for column in items
    ]
    transition = reader.unpack(windows if is_numpy else list(map(tf.constant, windows)))
    transition = tf.nest.map_structure(np.array, transition)
    by_start = {}
    for k, start in enumerate(map(tuple, transition.observation)):
        assert start not in by_start  # each transition begins one sample
        by_start[start] = tf.nest.map_structure(lambda leaf, k=k: leaf[k].tolist(), transition)
    return by_start


@pytest.mark.parametrize("is_numpy", [False, True])
def test_returns_over_three_steps_end_with_their_episode(is_numpy):
    found = n_step_transitions(3, lengths=[4, 2, 5], terminal=[1], is_numpy=is_numpy)
    # Rows 0-4, 5-7, 8-13; blocks of 5 rows begin every second row, and cover starts 0 to 9.
    assert set(found) == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0), (2, 1)}

    def expect(start, rewards, reached, discount):
        transition = found[start]
        assert transition.reward == sum(GAMMA**k * reward for k, reward in enumerate(rewards))
        assert transition.discount == discount
        assert transition.next_observation == reached
        assert transition.action == [rewards[0]]

    expect((0, 0), [1, 2, 3], [0, 3], GAMMA**2)
    expect((0, 1), [2, 3, 4], [0, 4], GAMMA**2)
    expect((0, 2), [3, 4], [0, 4], GAMMA)  # a time limit bootstraps
    expect((0, 3), [4], [0, 4], 1)
    expect((1, 0), [11, 12], [1, 2], 0)  # a termination does not
    expect((1, 1), [12], [1, 2], 0)
    expect((2, 1), [22, 23, 24], [2, 4], GAMMA**2)


def test_returns_over_one_step_are_the_transitions_themselves():
    found = n_step_transitions(1, lengths=[3, 2], terminal=[])
    assert {start: t.reward for start, t in found.items()} == {
        (0, 0): 1, (0, 1): 2, (0, 2): 3, (1, 0): 11, (1, 1): 12,
    }  # fmt: skip
