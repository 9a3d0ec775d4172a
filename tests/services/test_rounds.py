"""What passes from the worker of a deterministic run to its learner."""

import contextlib
import pathlib

import numpy as np
import pytest
from fakes import UNRIVALLED
from replay_fakes import EpisodeStepEnv, codec_of, serving

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.waiting import wait_until
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services import rounds as rounds_lib
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Checkpoints, Journal, Stream
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats
from tfagents_system.services.replay_files import NOTHING, describe_items, stored_numbers
from tfagents_system.services.rounds import ROUND_TABLES, RoundPublisher, RoundReader
from tfagents_system.services.table_info import table_stats

CODEC = codec_of(EpisodeStepEnv())


class OneWorker:
    """Collects episodes of 3 env steps, which observe their numbers."""

    def __init__(self, replay, layout, folder, stream=1, environment=None):
        self.environment, self._stream = environment or EpisodeStepEnv(), stream
        journal = Journal(folder / "journals", Stream(0, stream), CODEC.columns, layout.rows,
                          10**6, UNRIVALLED)  # fmt: skip
        self._adder = Adder(replay.client(), CODEC, layout, journal, tables=ROUND_TABLES)
        self._publisher = RoundPublisher(replay.client())

    def collect(self, num_episodes):
        for _ in range(num_episodes):
            policy = RandomPolicy(self.environment.action_spec(), 0)
            run_episode(self.environment, policy, 3, self._adder.add)
            self._adder.end_episode()
        self._adder.send()
        assert self._adder.is_confirmed(timeout_secs=60)

    def end_round(self, train_step):
        assert self._publisher.publish(train_step, self._stream, self._adder.num_recovered)

    def send_lost(self, replay):
        """Sends again what a checkpoint of the server lacks; returns how many items."""
        folder = pathlib.Path(replay.client().checkpoint())
        newest = stored_numbers(describe_items(folder, EXPERIENCE_TABLE))
        for _ in self._adder.send_lost(Checkpoints(newest, NOTHING, ())):
            assert self._adder.is_confirmed(timeout_secs=60)
        return self._adder.num_recovered


@contextlib.contextmanager
def reading(replay, layout):
    rounds = RoundReader(replay.address, SampleReader(CODEC, layout))
    try:
        yield rounds
    finally:
        rounds.close()


def observations(items):
    """[N, rows, 2]: the episode and the step in it of each row."""
    return CODEC.unpack(items).observation


@pytest.mark.parametrize("layout", [SINGLE, ItemLayout(4), ItemLayout(2, is_sequence=True)])
def test_the_learner_takes_whole_rounds_in_the_order_of_collection(tmp_path, layout):
    with contextlib.ExitStack() as stack:
        replay = stack.enter_context(serving(tmp_path / "reverb", is_deterministic=True))
        worker = OneWorker(replay, layout, tmp_path)
        rounds = stack.enter_context(reading(replay, layout))
        worker.collect(8)
        assert rounds.take(0, timeout_secs=0.05) is None  # nobody has said that it is complete
        worker.end_round(0)
        first = rounds.take(0, timeout_secs=60).columns
        worker.collect(4)
        assert rounds.take(10, timeout_secs=0.05) is None
        worker.end_round(10)
        second = rounds.take(10, timeout_secs=60).columns

        rows = np.concatenate([observations(items) for items in (first, second)])
        numbers = rows[:, 0] @ np.float32([10, 1])
        assert numbers.tolist() == sorted(numbers)
        assert len(set(numbers)) == len(numbers) == experience_stats(replay.client(), 5)[0]
        assert len(second[0]) < len(first[0]) and second[0].shape[1:] == (layout.rows, 6)
        worker.end_round(20)  # of no env step
        assert rounds.take(20, timeout_secs=60).columns[0].shape == (0, layout.rows, 6)


def steps_of(items):
    """The episode and the step in it of each item of SINGLE."""
    return [tuple(map(int, rows[0])) for rows in observations(items)]


def episodes(count):
    return [(episode, step) for episode in range(count) for step in range(3)]


def take_all(rounds, train_step, timeout_secs=60.0):
    """Returns what the learner takes in the end, and in which call."""
    for num_calls in range(1, 1000):
        taken = rounds.take(train_step, timeout_secs)
        if taken is not None:
            return steps_of(taken.columns), num_calls
    raise AssertionError("it takes nothing")


def test_a_learner_that_was_started_again_takes_every_stored_item_once_and_in_order(tmp_path):
    with serving(tmp_path / "reverb", is_deterministic=True) as replay:
        worker = OneWorker(replay, SINGLE, tmp_path)
        worker.collect(332)
        worker.end_round(0)
        with reading(replay, SINGLE) as rounds:
            assert take_all(rounds, 0) == (episodes(332), 1)
        worker.collect(1)
        worker.end_round(10)

        with reading(replay, SINGLE) as rounds:
            assert take_all(rounds, 10) == (episodes(333), 1)
            worker.collect(1)
            worker.end_round(20)
            assert take_all(rounds, 20) == (episodes(334)[-3:], 1)


def test_a_run_that_is_resumed_takes_every_restored_item_once_and_in_order(tmp_path):
    with serving(tmp_path / "before", is_deterministic=True) as replay:
        before = OneWorker(replay, SINGLE, tmp_path)
        before.collect(332)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    after = serving(tmp_path / "after", restore_from=checkpoint, is_deterministic=True)
    with after as replay, reading(replay, SINGLE) as rounds:
        worker = OneWorker(replay, SINGLE, tmp_path, stream=2, environment=before.environment)
        worker.collect(2)
        worker.end_round(10)
        assert take_all(rounds, 10) == (episodes(334), 1)


class Learner:
    """Keeps what it takes as the learner of a deterministic run does."""

    def __init__(self, rounds):
        self._rounds, self.steps = rounds, []

    def notice_restart(self):
        self._rounds._complete.refresh(timeout_secs=60)  # as it does twice a second

    def take(self, train_step):
        taken = self._rounds.take(train_step, timeout_secs=60)
        self.steps = ([] if taken.is_whole else self.steps) + steps_of(taken.columns)


def restart_from_nothing(replay):
    """Does to the tables what a crash before the first checkpoint does."""
    for table in ("experience", "stream", "rounds"):
        replay.client().reset(table)


@contextlib.contextmanager
def after_the_first_round(folder, num_episodes):
    """Yields server, worker and learner, which has taken a round of `num_episodes`."""
    with contextlib.ExitStack() as stack:
        replay = stack.enter_context(serving(folder / "reverb", is_deterministic=True))
        worker = OneWorker(replay, SINGLE, folder)
        learner = Learner(stack.enter_context(reading(replay, SINGLE)))
        worker.collect(num_episodes)
        worker.end_round(0)
        learner.take(0)
        yield replay, worker, learner


@pytest.mark.parametrize("restarts_worker", [False, True])
def test_what_is_sent_again_after_a_crash_of_the_server_is_in_the_buffer_once(
    tmp_path, restarts_worker
):
    with after_the_first_round(tmp_path, 40) as (replay, worker, learner):
        worker.collect(2)  # these are lost before the learner has taken them
        restart_from_nothing(replay)
        learner.notice_restart()
        worker.collect(98)
        worker.end_round(10)
        learner.take(10)
        assert sorted(learner.steps) == [s for s in episodes(140) if s[0] not in (40, 41)]

        num_sent_again = worker.send_lost(replay)
        assert num_sent_again == 3 * (40 + 2)
        if restarts_worker:  # before it tells the learner
            worker = OneWorker(replay, SINGLE, tmp_path, 2, worker.environment)
        worker.collect(1)
        worker.end_round(20)
        learner.take(20)
        assert sorted(learner.steps) == episodes(141)

        worker.collect(1)
        worker.end_round(30)
        learner.take(30)
        assert sorted(learner.steps) == episodes(142)


def test_a_replay_buffer_that_has_lost_everything_takes_nothing_from_the_learner(tmp_path):
    with after_the_first_round(tmp_path, 2) as (replay, worker, learner):
        restart_from_nothing(replay)
        learner.notice_restart()
        OneWorker(replay, SINGLE, tmp_path, 2, worker.environment).end_round(10)
        learner.take(10)
        assert sorted(learner.steps) == episodes(2)


def test_a_large_table_is_read_in_several_calls_even_if_it_grows_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds_lib, "SAMPLES_AT_ONCE", 10)
    with serving(tmp_path / "reverb", is_deterministic=True) as replay:
        worker = OneWorker(replay, SINGLE, tmp_path)
        worker.collect(20)
        worker.end_round(0)
        with reading(replay, SINGLE) as rounds:
            take_all(rounds, 0)
        worker.end_round(10)

        with reading(replay, SINGLE) as rounds:
            wait_until(lambda: rounds._complete.latest is not None, 60, "the round")
            for _ in range(3):
                rounds.take(10, timeout_secs=0.0)
            worker.collect(1)
            found, num_calls = take_all(rounds, 10, timeout_secs=0.0)

    assert found == episodes(21)
    assert num_calls >= 21 * 3 / 10


@pytest.mark.parametrize("is_deterministic", [True, False])
def test_a_checkpoint_can_be_restored_in_either_mode_without_what_was_under_way(
    tmp_path, is_deterministic
):
    with serving(tmp_path / "before", is_deterministic=True) as replay:
        worker = OneWorker(replay, SINGLE, tmp_path)
        worker.collect(4)
        worker.end_round(0)
        checkpoint = replay.client().checkpoint()
    after = serving(
        tmp_path / "after", restore_from=tmp_path / checkpoint, is_deterministic=is_deterministic
    )
    with after as replay:
        assert experience_stats(replay.client(), 5)[0] == 12
        tables = replay.client().server_info(timeout=5)
        assert set(tables) - {"experience", "variables", "evaluation"} == (
            {"stream", "rounds"} if is_deterministic else set()
        )
        for table in set(tables) - {"experience"}:
            assert table_stats(replay.client(), table, 5)[0] == 0
