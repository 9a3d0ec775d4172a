import contextlib
import pathlib
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf
from fakes import FakeClock
from replay_fakes import serving, serving_until_killed

from tfagents_system.core.process.background import raise_failures
from tfagents_system.core.process.ports import free_port
from tfagents_system.core.waiting import wait_until
from tfagents_system.services import variables as variables_lib
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.variables import VariablePublisher, VariableReader


def make_variables():
    return [tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable(5, dtype=tf.int64),
            tf.Variable([0.5], dtype=tf.float64), tf.Variable(7.0)]  # fmt: skip


@contextlib.contextmanager
def reading(address):
    """Reads until the end of the block; then a server has to run, since pulls wait for it."""
    reader = VariableReader(address, make_variables(), period_secs=0.01)
    try:
        yield reader
    finally:
        reader.close()
        reader._thread.join(10)
        assert not reader._thread.is_alive()


def await_step(reader, train_step):
    def has_arrived():
        return reader.latest is not None and reader.latest.train_step == train_step

    wait_until(has_arrived, 60, f"train step {train_step}; there is {reader.latest}")


def test_the_newest_version_arrives_with_its_step(tmp_path):
    with serving(tmp_path / "reverb") as replay, reading(replay.address) as reader:
        variables = make_variables()
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


def test_versions_arrive_also_if_no_confirmation_is_waited_for(tmp_path):
    with serving(tmp_path / "reverb") as replay, reading(replay.address) as reader:
        publisher = VariablePublisher(replay.client(), make_variables())

        def is_read(train_step):
            publisher.publish(train_step, timeout_secs=0.0)
            return reader.latest is not None and reader.latest.train_step == train_step

        for train_step in (1, 2, 3):
            wait_until(lambda step=train_step: is_read(step), 60, f"version {train_step}")


def test_refresh_brings_the_newest_version_long_before_the_next_pull(tmp_path):
    variables = make_variables()
    with serving(tmp_path / "reverb") as replay:
        publisher = VariablePublisher(replay.client(), variables)
        publisher.publish(0)
        reader = VariableReader(replay.address, variables, period_secs=1000.0)
        for train_step in range(1, 20):
            publisher.publish(train_step)
            reader.refresh(timeout_secs=60)
            assert reader.latest.train_step == train_step
        reader.close()


def test_refresh_waits_once_for_a_server_that_does_not_answer(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        reader = VariableReader(replay.address, make_variables(), period_secs=0.01)
        reader.refresh(timeout_secs=0.2)  # sampling waits for a first version
        begin = time.monotonic()
        for _ in range(100):
            reader.refresh(timeout_secs=1.0)
        assert time.monotonic() - begin < 10.0
        VariablePublisher(replay.client(), make_variables()).publish(3)
        await_step(reader, 3)
        reader.close()


@pytest.mark.system
def test_while_the_server_is_away_publish_returns_false_and_keeps_one_version(tmp_path):
    port, readers = free_port(), contextlib.ExitStack()
    client = reverb.Client(f"localhost:{port}")
    with serving_until_killed(tmp_path / "before", port):
        publisher = VariablePublisher(client, make_variables())
        reader = readers.enter_context(reading(f"localhost:{port}"))
        wait_until(lambda: publisher.publish(1), 60, "the server")
        await_step(reader, 1)
    assert not any(publisher.publish(step, timeout_secs=0.0) for step in (2, 3, 4))
    with serving_until_killed(tmp_path / "after", port), readers:
        wait_until(lambda: publisher.publish(5, timeout_secs=1), 60, "the first confirmation")
        await_step(reader, 5)
        info = client.server_info(timeout=5)["variables"]
        assert info.rate_limiter_info.insert_stats.completed == 2  # the oldest and the newest


def test_a_restored_server_offers_no_version_until_the_learner_publishes(tmp_path):
    # The checkpoint's version may be newer than the learner's own, or older than the workers'.
    with serving(tmp_path / "before") as replay:
        VariablePublisher(replay.client(), make_variables()).publish(70)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "after", restore_from=checkpoint) as replay:
        assert replay.client().server_info(timeout=5)["variables"].current_size == 0
        with reading(replay.address) as reader:
            VariablePublisher(replay.client(), make_variables()).publish(50)
            await_step(reader, 50)


def test_a_version_arrives_that_is_as_many_th_as_the_newest_before_a_restart(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        reader = VariableReader(replay.address, make_variables(), period_secs=1000.0)
        publisher = VariablePublisher(replay.client(), make_variables())
        publisher.publish(10)
        reader.refresh(timeout_secs=60)
        assert reader.latest.train_step == 10
        replay.client().reset("variables")  # which a restart begins with
        reader.refresh(timeout_secs=60)
        assert publisher.publish(20)
        assert table_stats(replay.client(), "variables", timeout_secs=5) == (1, 1)
        reader.refresh(timeout_secs=60)
        assert reader.latest.train_step == 20
        reader.close()


def num_fetched(replay):
    """Versions that the server has sent so far."""
    info = replay.client().server_info(timeout=5)["variables"]
    return info.rate_limiter_info.sample_stats.completed


def test_a_version_is_fetched_once_however_often_the_server_is_asked(tmp_path, monkeypatch):
    num_looks = 0

    def counting_stats(*arguments, **more):
        nonlocal num_looks
        num_looks += 1
        return table_stats(*arguments, **more)

    with serving(tmp_path / "reverb") as replay, reading(replay.address) as reader:
        publisher = VariablePublisher(replay.client(), make_variables())
        monkeypatch.setattr(variables_lib, "table_stats", counting_stats)
        for train_step in (1, 2, 3):
            assert publisher.publish(train_step)
            await_step(reader, train_step)
            looks_before = num_looks
            wait_until(lambda before=looks_before: num_looks > before + 20, 60, "more looks")
            assert num_fetched(replay) == train_step  # each look fetched one before


def test_the_same_version_is_published_again_only_to_a_server_that_lacks_it(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        publisher = VariablePublisher(replay.client(), make_variables())

        def num_published():
            info = replay.client().server_info(timeout=5)["variables"]
            return info.rate_limiter_info.insert_stats.completed

        for _ in range(3):  # as by a learner that waits for data
            assert publisher.publish(7)
        assert num_published() == 1
        assert publisher.publish(7, num_tickets=5)
        assert num_published() == 2
        replay.client().reset("variables")  # as a server that was restarted
        assert publisher.publish(7, num_tickets=5)
        assert replay.client().server_info(timeout=5)["variables"].current_size == 1


@pytest.mark.parametrize(("pull_secs", "period_secs"), [(0.001, 0.5), (0.1, 0.1 / 0.05), (60, 5)])
def test_the_period_grows_with_what_a_pull_takes(monkeypatch, pull_secs, period_secs):
    clock, due_at = FakeClock(), []
    monkeypatch.setattr(variables_lib.time, "monotonic", clock)
    monkeypatch.setattr(VariableReader, "_pull", lambda reader: clock.sleep(pull_secs))

    def await_request(reader, request, due):
        due_at.append(due)
        reader._is_closed = True
        return request

    monkeypatch.setattr(VariableReader, "_await_request", await_request)
    VariableReader("localhost:1", make_variables(), period_secs=0.5)._thread.join(10)
    assert due_at == [pytest.approx(pull_secs + period_secs)]


@pytest.mark.parametrize(
    "others",
    [
        [tf.Variable([[1.0, 2.0]]), *make_variables()[1:]],  # fewer values
        [tf.Variable(tf.zeros([3, 3])), *make_variables()[1:]],  # more
        make_variables()[:-2],
        [*make_variables(), tf.Variable(1, dtype=tf.int32)],
    ],
)
def test_a_version_of_other_variables_ends_the_program(tmp_path, others):
    with serving(tmp_path / "reverb") as replay, reading(replay.address) as reader:
        assert VariablePublisher(replay.client(), make_variables()).publish(1)
        await_step(reader, 1)
        raise_failures()
        assert VariablePublisher(replay.client(), others).publish(2)
        wait_until(lambda: not reader._thread.is_alive(), 60, "the thread's end")
        with pytest.raises(ValueError, match="The policy that has arrived has other variables"):
            raise_failures()
        raise_failures()  # once
        assert reader.latest.train_step == 1


def test_the_lessons_arrive_with_the_policy_and_a_change_publishes_again(tmp_path):
    with serving(tmp_path) as replay:
        publisher = VariablePublisher(replay.client(), make_variables(), num_courses=2)
        reader = VariableReader(replay.address, make_variables(), period_secs=0.01, num_courses=2)
        for lessons in ((0, 0), (0, 1), (3, 1)):
            assert publisher.publish(7, num_tickets=5, lessons=lessons)
            reader.refresh(timeout_secs=60)
            assert reader.latest.lessons == lessons
            assert (reader.latest.train_step, reader.latest.num_tickets) == (7, 5)
        reader.close()
