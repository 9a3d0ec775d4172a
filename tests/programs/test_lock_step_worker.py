"""Rounds of the deterministic mode."""

import functools

from replay_fakes import EpisodeStepEnv
from worker_fakes import (
    STEPS_PER_ITER,
    FakeAdder,
    FakeReader,
    FakeTickets,
    make_run,
    make_worker,
    rows_of,
)

from tfagents_system.collection.lock_step_worker import LockStepWorker
from tfagents_system.core.errors import EXIT_FINISHED
from tfagents_system.policies.acting import RandomPolicy


class TapeLearner:
    """Answers each complete round by publishing the next of `iterations`."""

    def __init__(self, reader, iterations):
        self._reader = reader
        self._iterations = iter(iterations)
        self._reader.publish_iteration(next(self._iterations))
        self.environment = EpisodeStepEnv(ends=[(2, 0.0), (3, 1.0)])
        self.messages = []  # (stream, items sent again) with each
        self.tape = []  # (iteration, env steps) of each complete round

    def take_round(self, train_step, stream, num_sent_again):
        self.messages.append((stream, num_sent_again))
        self.tape.append((train_step // STEPS_PER_ITER, self.environment.num_steps))
        self._reader.publish_iteration(next(self._iterations))


NUM_INITIAL = 6  # items of the initial fill; here an env step is one


def run_in_lock_step(run, iterations, num_to_fill=lambda adder: 0):
    adder = FakeAdder(burst_length=2)
    reader = FakeReader(FakeTickets(2, 3, num_iter=5))
    learner = TapeLearner(reader, iterations)
    make = functools.partial(LockStepWorker, publish_round=learner.take_round,
                             num_initial_items=NUM_INITIAL)  # fmt: skip
    worker = make_worker(run, adder, reader, environment=learner.environment, make=make)
    fill_policy = RandomPolicy(EpisodeStepEnv().action_spec(), 0)
    assert worker.run(lambda: num_to_fill(adder), fill_policy) == EXIT_FINISHED
    assert adder.num_unsent == 0
    assert set(learner.messages) == {(worker._records.fence.number, adder.num_recovered)}
    return learner.tape


def test_a_round_ends_with_the_episode_that_brings_the_env_steps_due(tmp_path):
    run = make_run(tmp_path, num_iter=5, n_buffer_init_episodes=2, eval_period_itrs=2)
    tape = run_in_lock_step(run, range(6))
    # Episodes end after 2, 5, 7, 10, 12, 15, 17, 20 env steps; due are 3 (2 + iteration).
    assert tape == [(0, 7), (1, 10), (2, 12), (3, 15), (4, 20)]
    collected = [(int(r["iteration"]), int(r["env_step"])) for r in rows_of(run, "collect")]
    assert collected == [(0, 2), (0, 5), (0, 7), (1, 10), (2, 12), (3, 15), (4, 17), (4, 20)]
    evaluated = [int(r["iteration"]) for r in rows_of(run, "eval")]
    assert evaluated == [2] * 3 + [4] * 3 + [5] * 3


def test_a_learner_that_has_gone_back_is_not_waited_for_and_gets_no_steps_twice(tmp_path):
    run = make_run(tmp_path, num_iter=5, n_buffer_init_episodes=2, eval_period_itrs=0)
    tape = run_in_lock_step(run, [0, 1, 2, 1, 2, 3, 4, 5])
    assert tape == [(0, 7), (1, 10), (2, 12), (1, 12), (2, 12), (3, 15), (4, 20)]


def test_a_first_round_that_a_crash_has_lost_is_collected_again(tmp_path, capsys):
    run = make_run(tmp_path, num_iter=5, n_buffer_init_episodes=2, eval_period_itrs=0)
    assert run_in_lock_step(run, range(6))[-1] == (4, 20)
    # Everything is still there, although the last items of episodes are not full.
    run_in_lock_step(run, range(6), num_to_fill=lambda adder: 1)
    assert "collected again" not in capsys.readouterr().out
    tape = run_in_lock_step(run, range(6), lambda adder: NUM_INITIAL - adder.num_added)
    # Due are 3 (2 + 4) = 18 at most, and there were 20. Episodes have 2 and 3 env steps in turn.
    assert tape == [(iteration, 2 + 3 + 2) for iteration in range(5)]
    assert capsys.readouterr().out.count("is collected again") == 1


def test_a_learner_that_begins_anew_gets_a_first_round_again_if_the_server_has_lost_it(tmp_path):
    run = make_run(tmp_path, num_iter=5, n_buffer_init_episodes=2, eval_period_itrs=0)
    # The server loses everything with the learner, after 12 env steps.
    tape = run_in_lock_step(
        run, [0, 1, 2, 0, 1, 2, 3, 4, 5],
        lambda adder: 12 + NUM_INITIAL - adder.num_added if adder.num_added >= 12 else 0,
    )  # fmt: skip
    assert tape[:3] == [(0, 7), (1, 10), (2, 12)]
    num_steps = 12 + 3 + 2 + 2  # the last episode is cut after a burst
    assert tape[3:6] == [(0, num_steps), (1, num_steps), (2, num_steps)]
    assert tape[-1] == (4, num_steps)  # due are 3 (2 + 4) = 18
