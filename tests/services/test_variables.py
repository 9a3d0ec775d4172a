import pathlib

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import serving

from tfagents_system.core.waiting import wait_until
from tfagents_system.services.variables import VariablePublisher, VariableReader


def make_variables():
    return [tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable(5, dtype=tf.int64),
            tf.Variable([0.5], dtype=tf.float64), tf.Variable(7.0)]  # fmt: skip


@pytest.fixture
def open_reader():
    readers = []

    def open_it(address):
        readers.append(VariableReader(address, make_variables(), period_secs=0.01))
        return readers[-1]

    yield open_it
    for reader in readers:
        reader.close()
        reader._thread.join(10)  # its server has gone: 5 s until it notices
        assert not reader._thread.is_alive()


def await_step(reader, train_step):
    def has_arrived():
        return reader.latest is not None and reader.latest.train_step == train_step

    wait_until(has_arrived, 30, f"train step {train_step}; there is {reader.latest}")


def test_the_newest_version_arrives_with_its_step(tmp_path, open_reader):
    with serving(tmp_path / "reverb") as replay:
        variables = make_variables()
        reader = open_reader(replay.address)
        assert reader.latest is None
        publisher = VariablePublisher(replay.client(), variables)
        assert publisher.publish(2**40)
        await_step(reader, 2**40)
        first = reader.latest.values
        for value, variable in zip(first, variables, strict=True):
            assert value.dtype == variable.dtype.as_numpy_dtype
            np.testing.assert_array_equal(value, variable.numpy())

        for train_step in (100, 150, 200):  # also one lower than before: a restored learner's
            variables[0].assign(np.full([2, 2], train_step))
            assert publisher.publish(train_step)
        await_step(reader, 200)
        assert reader.latest.values[0].tolist() == [[200, 200], [200, 200]]
        assert first[0].tolist() == [[1, 2], [3, 4]]
        assert replay.client().server_info(timeout=5)["variables"].current_size == 1


def test_while_the_server_is_away_publish_returns_false_and_keeps_one_version(
    tmp_path, open_reader
):
    with serving(tmp_path / "before") as replay:
        variables = make_variables()
        publisher = VariablePublisher(replay.client(), variables)
        reader = open_reader(replay.address)
        assert publisher.publish(1)
        await_step(reader, 1)
    assert not any(publisher.publish(step, timeout_secs=0.1) for step in (2, 3, 4))
    with serving(tmp_path / "after", port=replay.port) as replay:
        wait_until(lambda: publisher.publish(5, timeout_secs=1), 60, "the first confirmation")
        await_step(reader, 5)
        info = replay.client().server_info(timeout=5)["variables"]
        assert info.rate_limiter_info.insert_stats.completed == 2  # the oldest and the newest


def test_a_restored_server_offers_no_version_until_the_learner_publishes(tmp_path, open_reader):
    # The checkpoint's version may be newer than the learner's own, or older than the workers'.
    with serving(tmp_path / "before") as replay:
        VariablePublisher(replay.client(), make_variables()).publish(70)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "after", restore_from=checkpoint) as replay:
        assert replay.client().server_info(timeout=5)["variables"].current_size == 0
        reader = open_reader(replay.address)
        VariablePublisher(replay.client(), make_variables()).publish(50)
        await_step(reader, 50)
