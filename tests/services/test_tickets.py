"""Evaluation episodes on their way from the learner to the workers, through a real server."""

import collections
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from fakes import FakeClock
from replay_fakes import TinyParams, serving

from tfagents_system.core.process.background import raise_failures
from tfagents_system.services import tickets as tickets_lib
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.tickets import TICKETS_TABLE, TicketOffice, TicketTaker
from tfagents_system.services.versions import VersionCodec

STEPS_PER_ITER = TinyParams.num_steps_per_iter
NUM_EPISODES = TinyParams.n_eval_episodes
PERIOD = TinyParams.eval_period_itrs


class Learner:
    """Its one variable is the train step; `recorded` counts episodes by train step."""

    def __init__(self, replay, folder, **settings):
        self.settings = TinyParams({"horizon": 3})
        for name, value in ({"num_iter": 100} | settings).items():
            setattr(self.settings, name, value)
        self.variables = [tf.Variable([0.0])]
        self.folder, self.recorded = folder, collections.Counter()
        self.start(replay)

    def start(self, replay):
        """Also again, after it was killed."""
        path = self.folder / "checkpoints" / "evaluation.json"
        self.office = TicketOffice(
            replay.client(),
            self.variables,
            self.settings,
            path,
            lambda step: [0.0] * self.recorded[step],
        )

    def reach(self, iteration):
        self.variables[0].assign([iteration])
        return self.office.hand_out_if_due(iteration * STEPS_PER_ITER)


def take_all(replay, learner, most=100):
    """Returns the iterations of the tickets that are there, in order."""
    tickets = TicketTaker(replay.address, learner.variables)
    taken = []
    while len(taken) < most and (ticket := tickets.take()):
        iteration = ticket.train_step // STEPS_PER_ITER
        assert ticket.values[0].tolist() == [iteration]  # the policy of then
        taken.append(iteration)
    return taken


@pytest.fixture
def replay(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        yield replay


def test_each_evaluation_is_handed_out_once_after_its_period_and_at_the_end(tmp_path, replay):
    learner = Learner(replay, tmp_path, num_iter=5)
    taken, numbers = [], []
    for iteration in range(6):
        for _ in range(3):
            assert learner.reach(iteration)
        numbers.append(learner.office.num_tickets)
        taken += take_all(replay, learner)
    assert taken == [PERIOD] * NUM_EPISODES + [4] * NUM_EPISODES + [5] * NUM_EPISODES
    assert numbers == [0, 0, *[NUM_EPISODES] * 2, 2 * NUM_EPISODES, 3 * NUM_EPISODES]


def test_an_early_end_is_evaluated_once_unless_it_has_been(tmp_path, replay):
    learner = Learner(replay, tmp_path, num_iter=50)
    learner.reach(PERIOD)
    for _ in range(2):
        assert learner.office.hand_out_if_due(PERIOD * STEPS_PER_ITER, ends_early=True)
    assert take_all(replay, learner) == [PERIOD] * NUM_EPISODES
    learner.reach(PERIOD + 1)
    assert take_all(replay, learner) == []
    for _ in range(2):
        assert learner.office.hand_out_if_due((PERIOD + 1) * STEPS_PER_ITER, ends_early=True)
    assert take_all(replay, learner) == [PERIOD + 1] * NUM_EPISODES


def test_an_early_end_within_the_iteration_of_an_evaluation_is_evaluated(tmp_path, replay):
    learner = Learner(replay, tmp_path, num_iter=50)
    learner.reach(PERIOD)
    assert take_all(replay, learner) == [PERIOD] * NUM_EPISODES
    last = PERIOD * STEPS_PER_ITER + 1
    for _ in range(2):
        assert learner.office.hand_out_if_due(last, ends_early=True)
    assert len(take_all(replay, learner)) == NUM_EPISODES
    assert learner.office._newest.train_step == last


def test_first_episode_of_every_second_evaluation_and_of_the_last_is_filmed(tmp_path, replay):
    learner = Learner(replay, tmp_path, num_iter=11, video_period_itrs=2 * PERIOD)
    tickets = TicketTaker(replay.address, learner.variables)
    filmed = {}
    for iteration in (2, 4, 6, 9, 10, 11):  # 8 is skipped: the film of its period is that of 9
        assert learner.reach(iteration)
        first, *others = [tickets.take() for _ in range(NUM_EPISODES)]
        filmed[iteration] = first.is_filmed
        assert not any(ticket.is_filmed for ticket in others)
        tickets.give_back(first)
        assert tickets.take().is_filmed == filmed[iteration]
    assert PERIOD == 2
    assert filmed == {2: False, 4: True, 6: False, 9: True, 10: False, 11: True}


@pytest.mark.parametrize("settings", [{"eval_period_itrs": 0}, {"n_eval_episodes": 0}])
def test_without_evaluation_nothing_is_handed_out(tmp_path, replay, settings):
    learner = Learner(replay, tmp_path, **settings)
    assert learner.reach(100)
    assert take_all(replay, learner) == []


def test_taking_from_an_empty_table_does_not_wait(tmp_path, replay):
    learner = Learner(replay, tmp_path)
    take_all(replay, learner)
    begin = time.monotonic()
    for _ in range(10):
        assert take_all(replay, learner) == []
    assert time.monotonic() - begin < 10 * 0.5


def test_many_takers_get_each_ticket_once(tmp_path, replay):
    num_tickets = 3 * NUM_EPISODES  # as many as the table holds
    learner = Learner(replay, tmp_path, n_eval_episodes=num_tickets)
    assert learner.reach(PERIOD)
    taken = []
    threads = [
        threading.Thread(target=lambda: taken.extend(take_all(replay, learner))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert taken == [PERIOD] * num_tickets


def test_a_learner_that_was_killed_hands_out_nothing_twice_and_forgets_nothing(tmp_path, replay):
    learner = Learner(replay, tmp_path)
    learner.reach(4)
    assert take_all(replay, learner, most=1) == [4]
    learner.start(replay)
    for iteration in (1, 2, 3, 4, 5):  # restored from a checkpoint of before
        assert learner.reach(iteration)
    assert take_all(replay, learner) == [4] * (NUM_EPISODES - 1)
    learner.start(replay)  # killed before it has reached the next, restored after that
    assert learner.reach(7)
    assert take_all(replay, learner) == [7] * NUM_EPISODES


def test_a_learner_killed_before_its_tickets_have_arrived_hands_them_out(
    tmp_path, replay, monkeypatch
):
    learner = Learner(replay, tmp_path)
    with monkeypatch.context() as context, pytest.raises(ZeroDivisionError):
        context.setattr(VersionCodec, "pack", lambda *arguments: 1 / 0)  # between note and tickets
        learner.reach(PERIOD)
    assert take_all(replay, learner) == []
    learner.start(replay)
    assert learner.reach(PERIOD)
    assert take_all(replay, learner) == [PERIOD] * NUM_EPISODES


@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_evaluation_that_a_server_has_lost_is_handed_out_anew(tmp_path, is_recorded, capsys):
    with serving(tmp_path / "before") as replay:
        learner = Learner(replay, tmp_path)
        learner.reach(PERIOD)
        learner.recorded[PERIOD * STEPS_PER_ITER] = NUM_EPISODES if is_recorded else 1
        checkpoint = replay.client().checkpoint()
    with serving(tmp_path / "after", restore_from=tmp_path / checkpoint) as replay:
        learner.start(replay)
        assert learner.reach(PERIOD + 1)
        expected = [] if is_recorded else [PERIOD + 1] * NUM_EPISODES
        assert take_all(replay, learner) == expected
        learner.office.doubt_server()
        assert learner.reach(PERIOD + 1)
        assert take_all(replay, learner) == []
        assert learner.reach(4)
        assert take_all(replay, learner) == [4] * NUM_EPISODES
    assert ("has lost tickets" in capsys.readouterr().out) == (not is_recorded)


def test_what_workers_do_not_keep_up_with_is_put_off_and_never_dropped(tmp_path, replay):
    learner = Learner(replay, tmp_path, num_iter=11)
    assert [learner.reach(i) for i in (2, 4, 6, 8, 10)] == [True, True, False, False, False]
    assert learner.reach(11)  # the end
    size, _ = table_stats(replay.client(), TICKETS_TABLE, 5)
    assert size == 3 * NUM_EPISODES
    assert take_all(replay, learner) == list(np.repeat([2, 4, 11], NUM_EPISODES))


def test_a_ticket_that_is_given_back_is_for_another_worker_which_hears_of_it(
    tmp_path, replay, monkeypatch
):
    clock = FakeClock()
    monkeypatch.setattr(tickets_lib.time, "monotonic", clock)
    learner = Learner(replay, tmp_path)
    assert learner.reach(PERIOD)
    stopped = TicketTaker(replay.address, learner.variables)
    ticket = stopped.take()
    take_all(replay, learner)
    learner.reach(PERIOD + 1)
    stopped.give_back(ticket)
    assert learner.reach(PERIOD + 1) and learner.office.num_tickets == NUM_EPISODES
    clock.sleep(tickets_lib.LOOK_SECS)
    assert learner.reach(PERIOD + 1) and learner.office.num_tickets == NUM_EPISODES + 1
    assert take_all(replay, learner) == [PERIOD]
    assert learner.reach(2 * PERIOD)
    assert take_all(replay, learner) == [2 * PERIOD] * NUM_EPISODES


def test_giving_back_to_a_server_that_is_away_does_not_hold_up_a_stop(tmp_path, monkeypatch):
    with serving(tmp_path / "before") as replay:
        learner = Learner(replay, tmp_path)
        assert learner.reach(PERIOD)
        stopped = TicketTaker(replay.address, learner.variables)
        ticket = stopped.take()
    monkeypatch.setattr(tickets_lib, "CONFIRMATION_SECS", 0.2)
    begin = time.monotonic()
    stopped.give_back(ticket)
    assert time.monotonic() - begin < 5


def test_a_server_that_is_away_delays_an_evaluation(tmp_path):
    with serving(tmp_path / "before") as replay:
        learner = Learner(replay, tmp_path)
    assert not learner.reach(PERIOD)
    with pytest.raises(TimeoutError):
        TicketTaker(replay.address, learner.variables).take()


def test_a_ticket_of_other_variables_ends_the_program(tmp_path, replay):
    learner = Learner(replay, tmp_path)
    assert learner.reach(PERIOD)
    tickets = TicketTaker(replay.address, [tf.Variable([0.0, 1.0])])
    with pytest.raises(TimeoutError):
        tickets.take()
    with pytest.raises(tf.errors.InvalidArgumentError):
        raise_failures()
