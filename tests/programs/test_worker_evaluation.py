"""Tickets, evaluators, and films of evaluations."""

import functools

import numpy as np
from replay_fakes import EpisodeStepEnv, Stop
from report_fakes import worker_report, write_report
from slot_fakes import SlotEnv
from worker_fakes import (
    NUM_ITER,
    STEPS_PER_ITER,
    FailingEnv,
    FakeAdder,
    FakeReader,
    FakeTickets,
    TapePolicies,
    advance,
    iterations_evaluated,
    make_run,
    make_worker,
    no_fill,
    rows_of,
)

from tfagents_system import workers
from tfagents_system.collection.evaluating_worker import EvaluatingWorker
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.workers import Worker


def test_each_ticket_is_one_episode_of_its_policy_and_then_the_newest_acts_again(tmp_path):
    run, reader, policies = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), TapePolicies()
    adder = FakeAdder(advance(reader))
    worker = make_worker(run, adder, reader, policies=policies)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2  # the last at the end
    assert {row["length"] for row in rows_of(run, "eval")} == {"3"}
    eighth = policies.updates.index(["of 8"])
    # Taken; for each ticket and after it.
    assert policies.updates[eighth : eighth + 5] == [["of 8"]] * 5
    assert reader.tickets.num_asked == 3 * (2 + 1)  # and not once between evaluations
    report = read_report(run.paths, "worker_0").eval
    assert (report.iteration, len(report.returns)) == (20, 2)


def test_a_late_worker_takes_what_is_left_and_names_the_iteration_of_the_ticket(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 5))
    reader.publish_iteration(8)
    del reader.tickets.waiting[:3]  # others have taken these
    worker = make_worker(run, FakeAdder(advance(reader, first=11, by=8)), reader, worker_id=7)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run, worker_id=7) == [8] * 2 + [19] * 5 + [20] * 5


def test_a_worker_asks_again_for_tickets_when_the_server_is_back(tmp_path):
    run, tickets = make_run(tmp_path), FakeTickets(8, 2)
    reader = FakeReader(tickets)

    def on_confirm():
        tickets.is_away = reader.latest.train_step < 12 * STEPS_PER_ITER
        return advance_once()

    advance_once = advance(reader, first=8)
    tickets.is_away = True
    make_worker(run, FakeAdder(on_confirm), reader).run(no_fill, None)
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2


def test_a_worker_beside_evaluators_takes_no_ticket(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 2))
    adder = FakeAdder(advance(reader))
    make = functools.partial(Worker)

    def without_tickets(*args, tickets, **kwargs):
        return make(*args, tickets=None, **kwargs)

    make_worker(run, adder, reader, make=without_tickets).run(no_fill, None)
    assert iterations_evaluated(run) == []
    assert (reader.tickets.num_asked, len(reader.tickets.waiting)) == (0, 3 * 2)


def test_an_evaluation_that_fails_is_begun_anew_in_another_environment(tmp_path):
    reader = FakeReader(FakeTickets(NUM_ITER, 3))
    run = make_run(tmp_path)
    worker = make_worker(run, FakeAdder(advance(reader)), reader,
                         eval_environment=FailingEnv({4, 5}))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(rows_of(run, "eval")) == 3
    assert read_report(run.paths, "worker_0").env_failures == 2


def test_a_worker_whose_environment_is_broken_leaves_its_tickets_to_others(tmp_path, monkeypatch):
    reader, run = FakeReader(FakeTickets(8, 5)), make_run(tmp_path)
    reader.publish_iteration(8)
    write_report(run.paths, worker_report(1))
    monkeypatch.setattr(workers.time, "sleep", lambda secs: reader.publish_iteration(NUM_ITER))
    worker = make_worker(run, FakeAdder(), reader, eval_environment=FailingEnv(range(1, 1000)))
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(reader.tickets.waiting) == 5 + 5  # the one it had is given back


def test_a_worker_that_is_stopped_in_an_evaluation_gives_its_ticket_back(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), Stop()
    reader.publish_iteration(8)
    policies = TapePolicies()

    class StoppingEnv(EpisodeStepEnv):
        """The stop comes in the middle of the second episode."""

        def _step(self, action):
            stop.is_set = self.num_steps == 3 + 1
            return super()._step(action)

    worker = make_worker(run, FakeAdder(), reader, stop=stop, policies=policies,
                         eval_environment=StoppingEnv())  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert len(rows_of(run, "eval")) == 1
    assert [ticket.train_step for ticket in reader.tickets.waiting] == [8 * STEPS_PER_ITER]
    assert policies.updates[-1] == ["of 8"]


def test_a_worker_reports_an_evaluation_before_the_simulator_begins_it(tmp_path):
    run, reader, seen = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), []

    class SlowEnv(EpisodeStepEnv):
        def _reset(self):
            seen.append(read_report(run.paths, "worker_0").phase)
            return super()._reset()

    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=SlowEnv())
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert seen == [Phase.EVALUATING] * 3 * 2


class FilmedStepEnv(EpisodeStepEnv):
    """`rendered` is the tape of the env steps, of all episodes, of which there is a frame."""

    def __init__(self, fails_at=None):
        super().__init__()
        self.rendered, self._fails_at = [], fails_at

    def render(self, mode="rgb_array"):
        self.rendered.append(self.num_steps)
        if self.num_steps == self._fails_at:
            raise RuntimeError("no GL")
        return np.zeros((48, 64, 3), np.uint8)


def test_the_first_episode_of_an_evaluation_is_filmed_if_its_ticket_says_so(tmp_path):
    run, reader, environment = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), FilmedStepEnv()
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    films = sorted(path.name for path in run.paths.training_videos.iterdir())
    # After iterations 8, 16 and 20.
    assert films == [f"policy_checkpoint_{n * STEPS_PER_ITER:010d}.mp4" for n in (8, 16, NUM_ITER)]
    # Three steps an episode, two episodes an evaluation.
    assert environment.rendered == [n for n in range(1, 3 * 6 + 1) if (n - 1) // 3 % 2 == 0]


def test_a_worker_that_cannot_film_says_so_once_and_evaluates(tmp_path, capsys):
    run, reader, environment = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), FilmedStepEnv(2)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(rows_of(run, "eval")) == 3 * 2
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "ideo" in line] == [
        "No video of policy_checkpoint_0000000080 and later: step 2 failed with RuntimeError: "
        "no GL."
    ]
    assert environment.rendered == [1, 2]
    assert list(run.paths.training_videos.iterdir()) == []


def test_a_worker_that_is_stopped_while_it_films_leaves_no_film(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(FakeTickets(8, 2)), Stop()
    reader.publish_iteration(8)

    class StoppingEnv(FilmedStepEnv):
        def _step(self, action):
            stop.is_set = self.num_steps == 1
            return super()._step(action)

    environment = StoppingEnv()
    worker = make_worker(run, FakeAdder(), reader, stop=stop, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert environment.rendered == [1, 2]
    assert list(run.paths.training_videos.iterdir()) == []
    assert [ticket.is_filmed for ticket in reader.tickets.waiting] == [False, True]


def test_an_evaluator_runs_all_tickets_and_collects_nothing(tmp_path, monkeypatch):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 2))
    iterations = iter(range(1, NUM_ITER + 1))
    reader.publish_iteration(0)
    monkeypatch.setattr(
        workers.time, "sleep", lambda secs: reader.publish_iteration(next(iterations))
    )
    environment, adder = EpisodeStepEnv(), FakeAdder()

    def make(*args, **kwargs):
        records = WorkerRecords(run.paths, 0, run.horizon, 1, collects=False)
        return EvaluatingWorker(*args[:-1], records, **kwargs)

    worker = make_worker(run, adder, reader, environment=environment, make=make)
    assert worker.run(lambda: 100, None) == EXIT_FINISHED
    assert iterations_evaluated(run, "evaluator_0") == [8] * 2 + [16] * 2 + [20] * 2
    assert (adder.num_added, environment.num_steps) == (0, 0)
    report = read_report(run.paths, "evaluator_0")
    assert (report.phase, report.eval.iteration, report.env_steps) == (Phase.FINISHED, 20, 6 * 3)
    again = WorkerRecords(run.paths, 0, run.horizon, 1, collects=False)
    assert again.env_step == 6 * 3  # so that one that is started again has other seeds


def test_the_agents_of_a_simulator_are_evaluated_at_once_each_by_its_first_episode(tmp_path):
    run, reader = make_run(tmp_path, n_eval_episodes=4), FakeReader(FakeTickets(NUM_ITER, 4))
    environment = SlotEnv([[1], [3], [2]])
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    # Three agents, then the first of them once more; short episodes of the others do not count.
    assert [row["length"] for row in rows_of(run, "eval")] == ["1", "3", "2", "1"]
    assert environment.tape == ["reset", *[(0, 1, 2)] * 3, "reset", (0, 1, 2)]


def test_tickets_of_another_policy_wait_for_their_turn(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 2))
    reader.publish_iteration(8)
    reader.publish_iteration(16)
    worker = make_worker(run, FakeAdder(advance(reader, first=16, by=4)), reader,
                         eval_environment=SlotEnv([[1]] * 3))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2


def test_agents_whose_simulator_fails_begin_anew_and_none_counts_twice(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 2))
    worker = make_worker(run, FakeAdder(advance(reader)), reader,
                         eval_environment=SlotEnv([[1], [3]], fails_at=3))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert [row["length"] for row in rows_of(run, "eval")] == ["1", "3"]
    assert read_report(run.paths, "worker_0").env_failures == 1


def test_observers_of_evaluations_see_one_agent_after_another(tmp_path):
    seen = []

    class Observed(make_run(tmp_path).params.__class__):
        def eval_observers_ctor(self, id):
            return [lambda step: seen.append(tuple(step.observation.reshape(-1)[:2]))]

    run, reader = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 2))
    run.params.__class__ = Observed
    worker = make_worker(run, FakeAdder(advance(reader)), reader,
                         eval_environment=SlotEnv([[2], [3]]))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
