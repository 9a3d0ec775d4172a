import numpy as np
import tensorflow as tf

from tfagents_system.learning import growing_samples
from tfagents_system.learning.growing_samples import GrowingSamples, growing_source


def rows(*values):
    """Two columns of which one has ten times the values of the other."""
    column = np.array(values, np.float32)[:, np.newaxis]
    return [column, 10 * column.astype(np.int32)]


def starts(*values):
    return np.array(values, np.int32)


def nothing(max_bytes=10**6, **arguments):
    return GrowingSamples(rows(), starts(), 2, max_bytes, **arguments)


def drawn(samples, most=1000):
    """Counts the samples drawn, each named by its two rows of the first column."""
    first, second = samples.draw(np.random.default_rng(1), most)
    np.testing.assert_array_equal(second, 10 * first)
    assert first.dtype == np.float32 and second.dtype == np.int32
    pairs, counts = np.unique(first[..., 0], axis=0, return_counts=True)
    return dict(zip(map(tuple, pairs.tolist()), counts.tolist(), strict=True))


def test_as_many_are_drawn_as_there_are_until_they_suffice():
    samples = nothing()
    assert samples.num_added == 0
    assert drawn(samples, 4) == {}
    for index in range(6):
        samples.add(rows(index, index + 1), starts(0))
        assert samples.num_added == index + 1
        assert sum(drawn(samples, 4).values()) == min(index + 1, 4)


def test_what_was_there_first_is_drawn_in_full_and_with_what_was_added_by_weight():
    samples = GrowingSamples(rows(1, 2, 3), starts(1), 2, 10**6)
    assert drawn(samples) == {(2, 3): 1000}
    assert samples.num_added == 0
    samples.add(rows(7, 8, 9, 10), starts(0, 2, 2))
    samples.add(rows(20, 21), starts(0))
    shares = {(2, 3): 1 / 5, (7, 8): 1 / 5, (9, 10): 2 / 5, (20, 21): 1 / 5}
    found = drawn(samples)
    assert found.keys() == shares.keys()
    for pair, share in shares.items():  # four standard errors
        assert abs(found[pair] / 1000 - share) < 4 * np.sqrt(share * (1 - share) / 1000)
    assert samples.num_added == 4


def test_nothing_is_lost_while_memory_grows():
    samples = GrowingSamples(rows(0, 1), starts(0), 2, 10**6)
    for index in range(1, 200):
        samples.add(rows(2 * index, 2 * index + 1), starts(0))
    assert set(drawn(samples, 10**5)) == {(2 * index, 2 * index + 1) for index in range(200)}


def test_without_memory_the_rest_is_left_out_and_told_once():
    lines = []
    samples = nothing(max_bytes=5 * (4 + 4), log=lines.append)
    samples.add(rows(1, 2), starts(0))
    samples.add(rows(3, 4, 5, 6), starts(0, 2))  # a part fits
    samples.add(rows(7, 8), starts(0))
    assert set(drawn(samples)) == {(1, 2), (3, 4)}
    assert samples.num_added == 2
    assert len(lines) == 1 and "1 interventions fill the 5 env steps" in lines[0]


def test_a_source_looks_for_new_samples_and_its_iterators_share_them(monkeypatch):
    monkeypatch.setattr(growing_samples, "LOOK_PERIOD_SECS", 0.0)
    samples, arriving = nothing(), [rows(1, 2), rows(3, 4), rows(5, 6)]

    def look():
        if arriving:
            samples.add(arriving.pop(0), starts(0))

    train_step = tf.Variable(3, dtype=tf.int64)
    source = growing_source("held", samples, look, 2, seed=5, train_step=train_step)
    assert source.may_lack and source.num_samples == 2
    parts = [[column.numpy() for column in next(iterator).data]
             for iterator in [source.make_iterator()] for _ in range(3)]  # fmt: skip
    assert [len(first) for first, _ in parts] == [1, 2, 2]
    assert parts[0][0].tolist() == [[[1], [2]]]
    (first, _) = next(source.make_iterator()).data
    assert first.shape == (2, 2, 1)


def test_a_resumed_run_draws_other_samples_than_at_its_start():
    samples = nothing()
    samples.add(rows(*range(200)), starts(*range(0, 200, 2)))
    train_step = tf.Variable(0, dtype=tf.int64)
    source = growing_source("held", samples, lambda: None, 50, seed=5, train_step=train_step)

    def newly_drawn():
        return next(source.make_iterator()).data[0].numpy().tolist()

    at_first = newly_drawn()
    assert newly_drawn() == at_first
    train_step.assign(7)
    assert newly_drawn() != at_first
