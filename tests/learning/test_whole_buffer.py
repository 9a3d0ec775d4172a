import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import EpisodeStepEnv, codec_of

from tfagents_system.agents.batch import make_batch
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import FIRST, MID, Step, step_spec
from tfagents_system.learning import whole_buffer
from tfagents_system.learning.whole_buffer import RoundMinibatches, WholeBuffer
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder

CODEC = Codec(step_spec(tf.TensorSpec([1], tf.float32), tf.TensorSpec([1], tf.float32)))


def make_buffer(capacity=100, seed=0, layout=SINGLE, batch_size=400):
    return WholeBuffer(SampleReader(CODEC, layout), capacity, batch_size, seed)


def items(numbers, rows=2, first_row_of_episode=()):
    """Columns [N, rows, size]: row k of item n observes n + k / 10."""
    packed = []
    for number in numbers:
        for row in range(rows):
            kind = np.float32(FIRST if row in first_row_of_episode else MID)
            value = np.float32([number + row / 10])
            packed.append(CODEC.pack(Step(kind, value, value, value[0], np.float32(1)))[0])
    return [np.stack(packed).reshape(len(numbers), rows, -1)] if packed else [
        np.zeros([0, rows, CODEC.columns[0].shape[0]], np.float32)]  # fmt: skip


def drawn(buffer):
    """[B, window] numbers of the rows of a minibatch."""
    return CODEC.unpack(buffer.draw()).observation[..., 0]


def test_draws_are_uniform_over_all_items_and_the_newest_replace_the_oldest():
    buffer = make_buffer(capacity=4)
    buffer.add(items([0, 1, 2]))
    np.testing.assert_allclose(np.unique(drawn(buffer), axis=0), [[0, 0.1], [1, 1.1], [2, 2.1]])
    counts = np.bincount(drawn(buffer)[:, 0].astype(int))
    assert counts.min() > 400 / 3 - 5 * (400 * 1 / 3 * 2 / 3) ** 0.5
    buffer.add(items([3, 4]))
    assert set(drawn(buffer)[:, 0]) == {1, 2, 3, 4}
    buffer.add(items([]))
    buffer.add(items(range(5, 12)))  # more than fit
    assert set(drawn(buffer)[:, 0]) == {8, 9, 10, 11}


def test_no_sample_of_a_block_crosses_the_end_of_an_episode():
    buffer = make_buffer(layout=ItemLayout(3))
    buffer.add(items([0], rows=4, first_row_of_episode=[2]))
    starts = np.unique(drawn(buffer), axis=0)
    np.testing.assert_allclose(starts, [[0, 0.1], [0.2, 0.3]], rtol=1e-6)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_each_step_of_an_episode_is_trained_equally_often_in_segments(burn_in):
    layout = ItemLayout(10, is_sequence=True, is_segment=True, burn_in=burn_in)
    environment = EpisodeStepEnv(ends=[(21, 0.0)])
    recorder = ItemRecorder()
    adder = Adder(recorder, codec_of(environment), layout)
    run_episode(environment, RandomPolicy(environment.action_spec(), 0), 21, adder.add)
    adder.end_episode()
    adder.send()
    reader = SampleReader(codec_of(environment), layout)
    buffer = WholeBuffer(reader, capacity=100, batch_size=40_000, seed=0)
    buffer.add([np.stack(column) for column in zip(*recorder.items, strict=True)])
    segments = reader.unpack(buffer.draw())
    is_trained = make_batch(segments, False, burn_in).valid.numpy() == 1
    counts = np.bincount(segments.observation[is_trained][:, 1].astype(int))
    assert len(counts) == 21
    np.testing.assert_allclose(counts / counts.mean(), 1, atol=0.05)


def test_the_seed_decides_the_draws():
    buffers = [make_buffer(seed=seed) for seed in (1, 1, 2)]
    for buffer in buffers:
        buffer.add(items(range(50)))
    first, same, other = [np.stack([drawn(buffer) for _ in range(3)]) for buffer in buffers]
    assert first.tobytes() == same.tobytes() != other.tobytes()


def test_a_buffer_that_would_fill_the_memory_is_refused(monkeypatch):
    row_bytes = 4 * 5  # step type, observation, action, reward, discount
    monkeypatch.setattr(whole_buffer, "MAX_BYTES", 100 * 2 * row_bytes)
    make_buffer(capacity=100)
    with pytest.raises(ConfigError) as error:
        make_buffer(capacity=101)
    assert str(error.value) == (
        "SAC_DETERMINISTIC is 1, so that the learner keeps the whole replay buffer: 101 items, "
        "4,040 bytes; expected at most 4,000. Lower n_episodes_in_buffer."
    )


class Rounds:
    """Has the round of train step t, the item t, unless the test says that it is late.

    At the train steps `whole` it is all there is.
    """

    def __init__(self, whole=()):
        self.tape, self.whole = [], whole
        self.is_late = False

    def take(self, train_step, timeout_secs):
        self.tape.append(train_step)
        return None if self.is_late else (items([train_step]), train_step in self.whole)


def test_minibatches_of_an_iteration_are_drawn_when_its_round_has_come():
    rounds = Rounds()
    data = RoundMinibatches(make_buffer(), rounds.take, num_steps_per_iter=3, timeout_secs=0.1)
    iterator = data.iterator(0)
    seen = [set(CODEC.unpack(next(iterator).data).observation[:, 0, 0].numpy()) for _ in range(6)]
    assert seen == [{0}] * 3 + [{0, 3}] * 3
    assert rounds.tape == [0, 3]


def test_a_round_that_is_the_whole_replay_buffer_replaces_earlier_ones():
    rounds = Rounds(whole=[6])
    data = RoundMinibatches(make_buffer(), rounds.take, num_steps_per_iter=3, timeout_secs=0.1)
    iterator = data.iterator(0)
    seen = [set(CODEC.unpack(next(iterator).data).observation[:, 0, 0].numpy()) for _ in range(12)]
    assert seen == [{0}] * 3 + [{0, 3}] * 3 + [{6}] * 3 + [{6, 9}] * 3


def test_a_late_round_changes_no_minibatch():
    def minibatches(rounds_late_at):
        rounds = Rounds()
        data = RoundMinibatches(make_buffer(), rounds.take, 3, timeout_secs=0.1)
        iterator, found = data.iterator(0), []
        while len(found) < 9:
            rounds.is_late = len(found) in rounds_late_at
            try:
                found.append(next(iterator).data[0].numpy())
            except StopIteration:
                rounds_late_at.remove(len(found))
                iterator = data.iterator(len(found))
        return np.stack(found)

    assert minibatches([]).tobytes() == minibatches([3, 6]).tobytes()


def test_a_learner_that_goes_on_within_an_iteration_takes_its_round_at_once():
    rounds = Rounds()
    data = RoundMinibatches(make_buffer(), rounds.take, num_steps_per_iter=3, timeout_secs=0.1)
    iterator = data.iterator(7)
    for _ in range(3):  # of the train steps 7, 8, 9
        next(iterator)
    assert rounds.tape == [6, 9]
