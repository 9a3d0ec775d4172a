import collections
import re

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.minibatches import split_minibatch
from tfagents_system.data.item_layout import SINGLE
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.data.transition import MID, Step
from tfagents_system.learning import learner as learner_lib
from tfagents_system.learning.learner import DivergedError, Learner
from tfagents_system.learning.sampling_pool import SamplingPool
from tfagents_system.learning.sources import Mixer, Source

CODEC = step_codec(tf.TensorSpec([], tf.float32), tf.TensorSpec([1], tf.float32), SINGLE)
READER = SampleReader(CODEC, SINGLE)
Plain = collections.namedtuple("Plain", "data")
Replayed = collections.namedtuple("Replayed", "info data")
Info = collections.namedtuple("Info", "key")


class TapeAgent:
    """Keeps the rewards of the last minibatch; its loss is their mean."""

    def __init__(self, batch_size):
        self.train_step = tf.Variable(0, dtype=tf.int64)
        self.rewards = tf.Variable(tf.zeros([batch_size]))
        self.variables = (self.train_step,)  # rewards may be no number

    def train(self, experience):
        rewards = experience.next_time_step.reward
        self.rewards.assign(rewards)
        self.train_step.assign_add(1)
        return tf_agent.LossInfo(tf.reduce_mean(rewards), ())


def transitions(rewards):
    """Packed transitions [N, 2, size]."""
    start = CODEC.pack(CODEC.zeros())[0]
    step = Step(np.float32(MID), np.float32(0), np.float32([0]), np.float32(0), np.float32(1))
    rows = [[start, CODEC.pack(step._replace(reward=np.float32(r)))[0]] for r in rewards]
    return np.float32(rows).reshape([len(rows), *READER.columns[0].shape])


def samples(rewards, batch_size, keys=None):
    """A dataset of samples of `batch_size` transitions with `rewards`, and with keys if given."""
    data = tf.data.Dataset.from_tensor_slices(transitions(rewards))
    if keys is None:
        return data.batch(batch_size, drop_remainder=True).map(lambda column: Plain((column,)))
    data = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(np.uint64(keys)), data))
    return data.batch(batch_size, drop_remainder=True).map(
        lambda key, column: Replayed(Info(key), (column,))
    )


def replay_and_demonstrations(make_demonstrations, num_replayed=200):
    """Three samples with the rewards 0, 1, 2, ... and one of the demonstrations."""
    replayed = samples(range(num_replayed), 3)
    return [
        Source("replay", 3, lambda: iter(replayed)),
        Source("demonstrations", 1, make_demonstrations),
    ]


@pytest.mark.parametrize(
    "batch_size, shares, counts",
    [
        (256, [1.0], [256]),
        (256, [0.5, 0.5], [128, 128]),
        (7, [0.5, 0.5], [4, 3]),
        (256, [0.7, 0.2, 0.1], [179, 51, 25 + 1]),  # 179.2, 51.2, 25.6
        (10, [0.7, 0.3], [7, 3]),  # 10 * 0.7 is a little less than 7
        (3, [1 / 3, 1 / 3, 1 / 3], [1, 1, 1]),
    ],
)
def test_shares_are_whole_samples_that_sum_to_the_minibatch(batch_size, shares, counts):
    by_name = {f"source {index}": share for index, share in enumerate(shares)}
    assert list(split_minibatch(batch_size, by_name).values()) == counts
    assert list(split_minibatch(batch_size, by_name)) == list(by_name)


@pytest.mark.parametrize(
    "shares, message",
    [
        ({"replay": 0.5}, "are {'replay': 0.5}, which sum to 0.5; expected shares that sum to"),
        ({"replay": 0.9, "old": 0.2}, "which sum to 1.1"),
        ({"replay": 0.99, "old": 0.01}, "The share of old in a minibatch is 0.01, which is less"),
        ({"replay": 1.0, "old": 0.0}, "The share of old in a minibatch is 0, which is less"),
        ({"replay": 1.5, "old": -0.5}, "The share of old in a minibatch is -0.5, which is less"),
    ],
)
def test_shares_that_are_no_parts_of_a_minibatch_are_refused(shares, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        split_minibatch(20, shares)


@pytest.mark.parametrize("unroll_after_steps", [1000, 1])
def test_each_minibatch_has_its_samples_of_each_source(monkeypatch, unroll_after_steps):
    monkeypatch.setattr(learner_lib, "UNROLL_AFTER_STEPS", unroll_after_steps)
    demonstrated = samples(range(1000, 1200), 1)
    agent = TapeAgent(4)
    learner = Learner(agent, READER, replay_and_demonstrations(lambda: iter(demonstrated)))
    learner.run(1)
    if unroll_after_steps == 1:
        assert learner.is_compiled(learner_lib.UNROLLED_STEPS, wait_secs=60)
    while (before := int(agent.train_step)) < 40:
        metrics = learner.run(40 - before)  # the data would end in a call of 40 more
        last = int(agent.train_step) - 1
        of_replay = [3 * last, 3 * last + 1, 3 * last + 2]
        assert agent.rewards.numpy().tolist() == [*of_replay, 1000 + last]
        step = (before + last) / 2  # on average
        assert metrics["loss"] == pytest.approx((3 * (3 * step + 1) + 1000 + step) / 4)


def test_a_pool_beside_samples_as_they_come():
    pool = SamplingPool(READER, capacity=6, num_initial=6, num_fresh=2, batch_size=5)
    replayed, demonstrated = samples(range(100), 2), samples([1000] * 100, 3)
    agent = TapeAgent(8)
    sources = [
        Source("replay", 5, lambda: iter(replayed), pool),
        Source("demonstrations", 3, lambda: iter(demonstrated)),
    ]
    learner = Learner(agent, READER, sources)
    drawn = set()
    for step in range(20):
        assert learner.run(1) is not None
        rewards = agent.rewards.numpy()
        assert rewards[5:].tolist() == [1000] * 3
        # The newest of a pool of 6, to which each step has added 2.
        assert set(rewards[:5]) <= set(range(2 * step, 2 * step + 6))
        drawn |= set(rewards[:5])
    assert len(drawn) > 20


def test_waits_are_told_by_source(monkeypatch):
    readings = tf.Variable(0.0, dtype=tf.float64)
    monkeypatch.setattr(tf, "timestamp", lambda: tf.square(readings.assign_add(1)))
    demonstrated = samples(range(10), 1)
    sources = replay_and_demonstrations(lambda: iter(demonstrated))
    learner = Learner(TapeAgent(4), READER, sources, unrolls=False)
    for first in (1, 4):  # three readings in each train step
        metrics = learner.run(1)
        assert metrics.pop("loss") > 0
        assert metrics == {
            "replay_wait_secs": (first + 1) ** 2 - first**2,
            "demonstrations_wait_secs": (first + 2) ** 2 - (first + 1) ** 2,
            "data_wait_secs": (first + 2) ** 2 - first**2,
        }


def test_the_wait_of_a_single_source_has_one_name():
    replayed = samples(range(10), 2)
    learner = Learner(TapeAgent(2), READER, [Source("replay", 2, lambda: iter(replayed))])
    assert learner.run(1).keys() == {"loss", "data_wait_secs"}


def test_an_empty_source_is_waited_for_by_name():
    arrivals = iter([TimeoutError("no answer"), samples([], 1), samples([5, 6], 1)])

    def make_demonstrations():
        arrival = next(arrivals)
        if isinstance(arrival, Exception):
            raise arrival
        return iter(arrival)

    agent = TapeAgent(4)
    learner = Learner(agent, READER, replay_and_demonstrations(make_demonstrations, 6))
    assert learner.waits_for is None
    for _ in range(2):
        assert learner.run(1) is None
        assert learner.waits_for == "demonstrations"
    assert int(agent.train_step) == 0
    for step in range(2):
        assert learner.run(1)["loss"] == pytest.approx((3 * (3 * step + 1) + 5 + step) / 4)
        assert learner.waits_for is None
    assert learner.run(1) is None
    assert learner.waits_for == "replay"
    assert int(agent.train_step) == 2
    assert learner.num_traces == 1


def test_a_pool_is_filled_once_although_another_source_is_empty():
    taken = []

    def make_replay():
        taken.append(len(taken))
        return iter(samples(np.arange(40) + 100 * len(taken), 2))

    arrivals = iter([samples([], 1), samples([], 1), samples([7] * 10, 1)])
    pool = SamplingPool(READER, capacity=4, num_initial=4, num_fresh=2, batch_size=3)
    agent = TapeAgent(4)
    sources = [
        Source("replay", 3, make_replay, pool),
        Source("demonstrations", 1, lambda: iter(next(arrivals))),
    ]
    learner = Learner(agent, READER, sources)
    assert learner.run(1) is None
    assert learner.run(1) is None
    learner.run(1)
    assert taken == [0, 1, 2]
    assert set(agent.rewards.numpy()[:3]) <= set(range(100, 104))  # of the first iterator


@pytest.mark.parametrize("bad, keys", [(1, {71}), (3, set())])
@pytest.mark.parametrize("has_pool", [False, True])
def test_what_made_training_diverge_is_named_by_its_key_in_its_own_source(bad, keys, has_pool):
    rewards = np.zeros(4)
    columns = transitions(rewards)
    columns[bad][columns[bad] == 1] = 1e30  # the discount
    replayed = samples(rewards[:2], 2, keys=[70, 71])
    with_key = replayed.map(lambda s: Replayed(s.info, (tf.constant(columns[:2]),))).repeat(5)
    without = samples(rewards[2:], 2).map(lambda s: Plain((tf.constant(columns[2:]),))).repeat(5)
    pools = [SamplingPool(READER, 2, 2, 2, 8) if has_pool else None for _ in range(2)]
    num_samples = 8 if has_pool else 2
    sources = [
        Source("replay", num_samples, lambda: iter(with_key), pools[0]),
        Source("demonstrations", num_samples, lambda: iter(without), pools[1]),
    ]

    class DivergingAgent(TapeAgent):
        def train(self, experience):
            loss_info = super().train(experience)
            return loss_info._replace(loss=tf.reduce_sum(experience.next_time_step.discount))

    with pytest.raises(DivergedError) as error_info:
        Learner(DivergingAgent(2 * num_samples), READER, sources).run(1)
    assert error_info.value.keys == keys


def held(rewards, dtype=np.float32):
    """A sample of as many transitions as there are rewards."""
    return Plain((tf.constant(transitions(np.array(rewards, dtype))),))


def rewards_of(minibatch):
    return READER.unpack(minibatch).reward.numpy().tolist()


@pytest.mark.parametrize(
    "present, expected",
    [
        ([], [0, 1, 0, 1, 0]),
        ([7], [0, 1, 7, 0, 1]),
        ([7, 8, 9], [0, 1, 7, 8, 9]),
    ],
)
def test_what_a_source_lacks_is_the_first_sources_part_again(present, expected):
    mixer = Mixer([
        Source("replay", 2, lambda: iter(())),
        Source("demonstrations", 3, lambda: iter(()), may_lack=True),
    ])  # fmt: skip
    minibatch = mixer.mix([held([0, 1]), held(present)], mixer.draw())
    assert rewards_of(minibatch) == expected
    assert all(column.shape[0] == 5 for column in minibatch)


@pytest.mark.parametrize("num_present", [0, 1, 3])
def test_what_a_source_lacks_is_drawn_from_the_first_sources_pool(num_present):
    pool = SamplingPool(READER, capacity=200, num_initial=200, num_fresh=2, batch_size=8)
    pool.fill(iter(samples(range(200), 2)))
    mixer = Mixer([
        Source("replay", 5, lambda: iter(()), pool),
        Source("demonstrations", 3, lambda: iter(()), may_lack=True),
    ])  # fmt: skip
    drawn = mixer.draw()
    given = [held([300, 301]), held([1000 + index for index in range(num_present)])]
    rewards = rewards_of(mixer.mix(given, drawn))
    of_pool = rewards_of(drawn[0])
    assert len(rewards) == len(of_pool) == 8
    assert rewards[:5] == of_pool[:5]
    assert rewards[5 : 5 + num_present] == [1000, 1001, 1002][:num_present]
    assert rewards[5 + num_present :] == of_pool[5 : 8 - num_present]


def test_a_share_begins_when_there_are_samples_for_it():
    parts = [[]] * 2 + [[1000]] * 2 + [[1000, 1001]] * 6

    def make_demonstrations():
        spec = tf.TensorSpec([None, *READER.columns[0].shape], tf.float32)
        data = tf.data.Dataset.from_generator(
            lambda: (held(part) for part in parts), output_signature=Plain((spec,))
        )
        return iter(data)

    replayed = samples(range(100), 2)
    agent = TapeAgent(4)
    sources = [
        Source("replay", 2, lambda: iter(replayed)),
        Source("demonstrations", 2, make_demonstrations, may_lack=True),
    ]
    learner = Learner(agent, READER, sources)
    for step, part in enumerate(parts):
        assert learner.run(1) is not None
        first = [2 * step, 2 * step + 1]
        assert agent.rewards.numpy().tolist() == first + [*part, *first][:2]
    assert learner.num_traces == 1


def test_what_made_training_diverge_is_named_if_it_came_in_for_a_sample_that_lacked():
    columns = transitions(np.zeros(2))
    columns[columns == 1] = 1e30  # the discounts
    pool = SamplingPool(READER, capacity=2, num_initial=2, num_fresh=2, batch_size=4)
    replayed = samples([0, 0], 2, keys=[70, 71])
    bad = replayed.map(lambda s: Replayed(s.info, (tf.constant(columns),))).repeat(5)
    pool.fill(iter(bad))
    mixer = Mixer([
        Source("replay", 2, lambda: iter(()), pool),
        Source("demonstrations", 2, lambda: iter(()), may_lack=True),
    ])  # fmt: skip
    minibatch = mixer.mix([held([]), held([])], mixer.draw())
    found = mixer.keys_of_samples([2], [column.numpy() for column in minibatch], [()] * 2)
    assert found == {70, 71}  # which have the same content


def test_the_order_of_parts_is_that_of_the_sources():
    mixer = Mixer([Source(name, 1, lambda: iter(())) for name in "abc"])
    given = [Plain((tf.fill([1, 2, 3], float(index)),)) for index in range(3)]
    (column,) = mixer.mix(given, mixer.draw())
    assert column[:, 0, 0].numpy().tolist() == [0, 1, 2]
