import collections
import functools
import itertools
import pathlib
import threading

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import (
    EpisodeStepEnv,
    SleepingWatchdog,
    Stop,
    TinyParams,
    all_items,
    codec_of,
    serving,
)
from report_fakes import worker_report, write_report
from tf_agents.metrics import py_metrics
from tf_agents.trajectories import trajectory

from tfagents_system import sac_collect, workers
from tfagents_system.collection import episode_log, worker_records
from tfagents_system.collection.best_policy_keeper import BestPolicyKeeper
from tfagents_system.collection.episode_log import EpisodeLog
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.collection.worker_environments import Environments
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.process import reporting
from tfagents_system.core.process.background import start_thread
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.state import reports
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.evaluating_worker import EvaluatingWorker
from tfagents_system.films import camera
from tfagents_system.films.camera import Camera
from tfagents_system.lock_step_worker import LockStepWorker
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.policies.newest_policies import NewestPolicies
from tfagents_system.records import event_log
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import experience_stats
from tfagents_system.services.variables import VariablePublisher, VariableReader
from tfagents_system.services.versions import PolicyVersion
from tfagents_system.workers import Experience, Worker

NUM_ITER, STEPS_PER_ITER = 20, 10


class TapePolicies:
    """Random actions by default; records the values it was updated with."""

    def __init__(self, collect=None, greedy=None):
        self.collect = collect or RandomPolicy(EpisodeStepEnv().action_spec(), 0)
        self.greedy = greedy or RandomPolicy(EpisodeStepEnv().action_spec(), 1)
        self.updates = []

    def update(self, values):
        self.updates.append(values)


class FakeReader:
    """Publishes what the test assigns; without `tickets` nothing is evaluated."""

    def __init__(self, tickets=None):
        self.tickets = tickets or FakeTickets(NUM_ITER + 1, 0)
        self.latest = None

    def refresh(self, timeout_secs):
        pass

    def publish_iteration(self, iteration):
        iteration = min(iteration, NUM_ITER)
        values = [f"of {iteration}"]
        num_tickets = self.tickets.hand_out(iteration, values)
        self.latest = PolicyVersion(iteration * STEPS_PER_ITER, values, num_tickets)


class FakeTickets:
    """The learner hands out `num_episodes` after every `period` iterations and at the end.

    The first one of each evaluation is to be filmed.
    """

    def __init__(self, period, num_episodes, num_iter=NUM_ITER):
        self._period, self._num_episodes, self._num_iter = period, num_episodes, num_iter
        self._handed_out = self.num_tickets = self.num_asked = 0
        self.waiting = []
        self.is_away = False

    def hand_out(self, iteration, values):
        due = iteration if iteration == self._num_iter else iteration // self._period * self._period
        if due > self._handed_out:
            self._handed_out = due
            self.num_tickets += self._num_episodes
            ticket = PolicyVersion(iteration * STEPS_PER_ITER, values)
            self.waiting.append(ticket._replace(is_filmed=True))
            self.waiting += [ticket] * (self._num_episodes - 1)
        return self.num_tickets

    def take(self):
        self.num_asked += 1
        if self.is_away:
            raise TimeoutError
        return self.waiting.pop(0) if self.waiting else None

    def give_back(self, ticket):
        self.waiting.append(ticket)


class FakeAdder:
    """A burst is due after `burst_length` steps; `on_confirm` returns whether it is confirmed."""

    def __init__(self, on_confirm=lambda: True, burst_length=3):
        self._on_confirm, self._burst_length = on_confirm, burst_length
        self.num_unsent = 0
        self.is_pending = False
        self.num_added = 0
        self.num_recovered = self.num_unprotected = self.num_left_out = self.num_damaged = 0
        self.rejected = collections.Counter()

    def add(self, time_step, action, next_time_step, state):
        self.num_unsent += 1
        self.num_added += 1
        return True

    def end_episode(self):
        pass

    @property
    def is_burst_due(self):
        return self.num_unsent >= self._burst_length

    def send(self):
        self.is_pending = self.num_unsent > 0
        self.num_unsent = 0

    def send_lost(self, checkpoints):
        for burst in checkpoints:
            self.is_pending = True
            self.num_recovered += burst
            yield

    def is_confirmed(self, timeout_secs):
        self.is_pending = self.is_pending and not self._on_confirm()
        return not self.is_pending


def make_run(folder, curriculum=None, **hyperparameters):
    params = TinyParams({"horizon": 3})
    values = {"num_iter": NUM_ITER, "num_steps_per_iter": STEPS_PER_ITER} | hyperparameters
    for name, value in values.items():
        setattr(params, name, value)
    return Run(ExperimentPaths(folder), params, Curriculum.from_config(curriculum or {}, "test"), 0)


def replaceable(environment):
    """Goes on with the same environment after a failure."""
    return ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())


def make_worker(run, adder, reader, worker_id=0, stop=None, environment=None,
                eval_environment=None, new_checkpoints=lambda: None, policies=None,
                make=Worker):  # fmt: skip
    hooks = (run.params.train_observers_ctor, run.params.eval_observers_ctor)
    environments = Environments(
        replaceable(environment or EpisodeStepEnv()),
        replaceable(eval_environment or EpisodeStepEnv()),
        *(StepObservers(hook, worker_id, run.horizon) for hook in hooks),
        Camera(run.horizon, run.paths.training_videos, print),
        SleepingWatchdog(),
    )
    return make(
        run,
        environments,
        NewestPolicies(policies or TapePolicies(), reader),
        Experience(adder, new_checkpoints),
        WorkerRecords(run.paths, worker_id, run.horizon, run.params.log_period_itrs),
        should_stop=lambda: stop,
        tickets=getattr(reader, "tickets", None),
        keep_best=lambda version: None,
    )


def no_fill():
    return 0


def rows_of(run, kind, worker_id=0):
    lines = (run.paths.episodes / f"{kind}_{worker_id}.csv").read_text().splitlines()
    names = lines[0].split(",")
    return [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]


def advance(reader, first=0, by=1):
    """Returns an `on_confirm` that publishes the next iteration with each burst."""
    reader.publish_iteration(first)
    iterations = iter(range(first + by, 10 * NUM_ITER, by))

    def on_confirm():
        reader.publish_iteration(next(iterations))
        return True

    return on_confirm


def test_the_first_fill_is_shared_by_the_workers_and_happens_once(tmp_path):
    num_workers, burst_length = 2, 5
    run = make_run(tmp_path, n_buffer_init_episodes=30)  # x horizon 3 = 90 env steps

    class ReaderAfterFill:
        """The learner publishes its last version when the fill is there."""

        def __init__(self, client):
            self._client = client

        def refresh(self, timeout_secs):
            pass

        @property
        def latest(self):
            if experience_stats(self._client, timeout_secs=5)[1] < 90:
                return None
            return PolicyVersion(NUM_ITER * STEPS_PER_ITER, [])

    def run_workers(replay):
        environments = [EpisodeStepEnv() for _ in range(num_workers)]
        codes = []

        def work(worker_id):
            client = replay.client()
            adder = Adder(client, codec_of(environments[0]), burst_length=burst_length)
            reader = ReaderAfterFill(client)
            worker = make_worker(run, adder, reader, worker_id,
                                 environment=environments[worker_id])  # fmt: skip
            num_to_fill = sac_collect._num_to_fill_fn(run, client, Stop())
            codes.append(worker.run(num_to_fill, RandomPolicy(environments[0].action_spec(), 0)))

        threads = [threading.Thread(target=work, args=[i]) for i in range(num_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert codes == [EXIT_FINISHED] * num_workers
        return [environment.num_steps for environment in environments]

    with serving(tmp_path / "before") as replay:
        steps = run_workers(replay)
        assert 90 <= sum(steps) < 90 + num_workers * burst_length
        assert min(steps) > 0
        assert experience_stats(replay.client(), timeout_secs=5)[1] == sum(steps)
        assert run_workers(replay) == [0, 0]  # restarted workers
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "after", restore_from=checkpoint) as replay:
        assert run_workers(replay) == [0, 0]  # a resumed run


def test_the_fill_policy_acts_in_the_fill_only(tmp_path):
    class ConstantPolicy:
        def __init__(self, value):
            self._value = value

        def initial_state(self):
            return ()

        def action(self, time_step, state):
            actions.append(self._value)
            return np.float32([self._value]), state

    actions, reader = [], FakeReader(FakeTickets(NUM_ITER, 3))
    adder = FakeAdder(advance(reader, first=NUM_ITER - 4))
    policies = TapePolicies(ConstantPolicy(0.5), ConstantPolicy(0.0))
    worker = make_worker(make_run(tmp_path), adder, reader, policies=policies)
    worker.run(lambda: 4 - adder.num_added, ConstantPolicy(-0.5))
    # Bursts of 3: after the second one the fill has its 4 steps. Of three more, the third waits for
    # the confirmation of the second, and training is finished. 3 evaluations of 3 steps follow.
    assert actions == [-0.5] * 6 + [0.5] * 9 + [0.0] * 9


def test_each_iteration_gets_its_curriculum_values_and_each_change_one_call(tmp_path):
    curriculum = {
        "mass": {"iters": [2, 5, 6], "range": [1.0, 2.0]},
        "level": {"iters": [0, 5], "range": [1, 9]},
    }
    run, reader, environment = make_run(tmp_path, curriculum), FakeReader(), EpisodeStepEnv()
    worker = make_worker(run, FakeAdder(advance(reader)), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert environment.states == [
        {"level": 1}, {"mass": 1.0}, {"mass": 1.5}, {"level": 9}, {"mass": 2.0}]  # fmt: skip
    # An episode is one burst, whose confirmation makes the next iteration; the row says the
    # iteration at its end, when the burst before is confirmed. The end of training cut the last.
    assert [int(row["iteration"]) for row in rows_of(run, "collect")] == list(range(NUM_ITER))
    assert read_report(run.paths, "worker_0").curriculum == {"mass": 2.0, "level": 9}

    environment = EpisodeStepEnv()  # of a worker that starts again in iteration 5
    adder = FakeAdder(advance(reader, first=5))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert environment.states == [{"mass": 1.5}, {"level": 9}, {"mass": 2.0}]


def iterations_evaluated(run, worker_id=0):
    return [int(row["iteration"]) for row in rows_of(run, "eval", worker_id)]


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


def test_a_worker_whose_policy_does_not_reach_the_end_ends_with_the_learners_file(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "FINISHED_PERIOD_SECS", 0.0)
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(3)
    bursts = itertools.count()

    def on_confirm():
        if next(bursts) == 2:
            run.paths.finished.touch()  # and the server has gone
        return not run.paths.finished.exists()

    worker = make_worker(run, FakeAdder(on_confirm), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert read_report(run.paths, "worker_0").phase == Phase.FINISHED


def test_a_worker_that_waits_for_a_first_policy_ends_with_the_learners_file(tmp_path):
    run = make_run(tmp_path)
    run.paths.finished.touch()
    worker = make_worker(run, FakeAdder(), FakeReader())
    assert worker.run(no_fill, None) == EXIT_FINISHED


def test_a_burst_waits_until_the_one_before_is_confirmed(tmp_path):
    run, reader, environment = make_run(tmp_path), FakeReader(), EpisodeStepEnv()
    reader.publish_iteration(0)
    answers = iter([True, False, False, False, True])
    tape = []

    def on_confirm():
        answer = next(answers, None)
        if answer is None:
            reader.publish_iteration(NUM_ITER)
        tape.append(environment.num_steps)
        return answer is not False

    worker = make_worker(run, FakeAdder(on_confirm), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert tape == [6, 9, 9, 9, 9, 12]


def test_the_newest_version_is_taken_with_each_burst(tmp_path):
    run, reader, policies = make_run(tmp_path), FakeReader(), TapePolicies()
    adder = FakeAdder(advance(reader, first=3, by=5))
    make_worker(run, adder, reader, policies=policies).run(no_fill, None)
    assert policies.updates == [["of 3"], ["of 8"], ["of 13"], ["of 18"], ["of 20"]]


def test_a_stop_ends_the_wait_for_the_limiter_and_the_exit_code_says_so(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    reader.publish_iteration(0)

    def on_confirm():
        stop.is_set = True
        return False

    worker = make_worker(run, FakeAdder(on_confirm), reader, stop=stop)
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert read_report(run.paths, "worker_0").phase == "stopped"
    assert rows_of(run, "eval") == []


def test_a_stop_within_an_episode_leaves_nothing_unsent(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    reader.publish_iteration(0)

    class StoppingEnv(EpisodeStepEnv):
        def _step(self, action):
            stop.is_set = True
            return super()._step(action)

    adder = FakeAdder(burst_length=100)
    worker = make_worker(run, adder, reader, stop=stop, environment=StoppingEnv())
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert (adder.num_added, adder.num_unsent) == (3, 0)  # a whole episode
    assert not adder.is_pending  # the server has it


def test_the_end_of_training_ends_the_wait_for_the_limiter(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 1))
    reader.publish_iteration(0)

    def on_confirm():
        reader.publish_iteration(NUM_ITER)
        return False

    assert make_worker(run, FakeAdder(on_confirm), reader).run(no_fill, None) == EXIT_FINISHED
    assert {row["iteration"] for row in rows_of(run, "eval")} == {str(NUM_ITER)}


def test_env_steps_go_on_from_the_log_of_the_start_before(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    for _ in range(2):
        make_worker(run, FakeAdder(advance(reader, first=17)), reader).run(no_fill, None)
    assert [int(row["env_step"]) for row in rows_of(run, "collect")] == [3, 6, 9, 12, 15, 18]
    assert EpisodeLog(run.paths.episodes, "collect", 0).env_step == 18


def test_no_policy_from_the_learner_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "VARIABLES_TIMEOUT_SECS", 0.1)
    worker = make_worker(make_run(tmp_path), FakeAdder(), FakeReader())
    with pytest.raises(TimeoutError, match="the learner's first policy; see .*learner.log"):
        worker.run(no_fill, None)


class FailingEnv(EpisodeStepEnv):
    """Raises in each env step whose number, from 1, is in `failures`."""

    def __init__(self, failures):
        super().__init__()
        self._failures = failures
        self.num_attempts = 0

    def _step(self, action):
        self.num_attempts += 1
        if self.num_attempts in self._failures:
            raise RuntimeError("the motor is gone")
        return super()._step(action)


def test_an_episode_that_fails_is_dropped_and_counted_and_collection_goes_on(tmp_path, capsys):
    reader = FakeReader()
    environment = FailingEnv({5, 11})  # episodes have 3 steps: the second and the fourth end early
    run = make_run(tmp_path, n_eval_episodes=0)
    adder = FakeAdder(advance(reader))
    assert make_worker(run, adder, reader, environment=environment).run(no_fill, None) == (
        EXIT_FINISHED
    )
    assert read_report(run.paths, "worker_0").env_failures == 2
    assert adder.num_added == environment.num_attempts - 2
    lengths = [int(row["length"]) for row in rows_of(run, "collect")]
    assert lengths[:4] == [3] * 4
    env_steps = [int(row["env_step"]) for row in rows_of(run, "collect")]
    assert env_steps[:3] == [3, 3 + 1 + 3, 3 + 1 + 3 + 2 + 3]
    assert capsys.readouterr().err.count("RuntimeError: the motor is gone") == 2


def test_a_worker_without_others_fails_with_the_environment(tmp_path):
    reader = FakeReader()
    reader.publish_iteration(0)
    environment = FailingEnv(range(1, 1000))
    worker = make_worker(make_run(tmp_path), FakeAdder(), reader, environment=environment)
    with pytest.raises(EnvironmentFailure) as error_info:
        worker.run(no_fill, None)
    assert str(error_info.value.__cause__) == "the motor is gone"
    assert environment.num_attempts == workers.MAX_FAILURES_IN_A_ROW


@pytest.mark.parametrize("phase_of_other", [Phase.COLLECTING, Phase.PARKED])
def test_a_worker_parks_while_another_collects(tmp_path, monkeypatch, phase_of_other):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = FailingEnv(range(1, 1000))
    worker = make_worker(run, FakeAdder(), reader, environment=environment)
    write_report(run.paths, worker_report(1, phase=phase_of_other))

    def sleep(secs):
        if environment.num_attempts == workers.MAX_FAILURES_IN_A_ROW:
            reader.publish_iteration(NUM_ITER)

    monkeypatch.setattr(workers.time, "sleep", sleep)
    if phase_of_other == Phase.PARKED:
        with pytest.raises(EnvironmentFailure):
            worker.run(no_fill, None)
    else:
        assert worker.run(no_fill, None) == EXIT_FINISHED
        assert environment.num_attempts == workers.MAX_FAILURES_IN_A_ROW


def test_an_evaluation_that_fails_is_begun_anew_in_another_environment(tmp_path):
    reader = FakeReader(FakeTickets(NUM_ITER, 3))
    run = make_run(tmp_path)
    worker = make_worker(run, FakeAdder(advance(reader)), reader,
                         eval_environment=FailingEnv({4, 5}))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(rows_of(run, "eval")) == 3
    assert read_report(run.paths, "worker_0").env_failures == 2


class BrokenSensorEnv(EpisodeStepEnv):
    """Observes NaN at the env steps, counted from 1 over all episodes, in `broken`; 0 is a reset.

    `actions` is the tape of all actions.
    """

    def __init__(self, broken, resets=()):
        super().__init__(ends=((4, 1.0),))
        self._broken, self._broken_resets = broken, resets
        self.actions = []

    def _observation(self):
        is_reset = self._position == 0
        is_broken = (
            self._episode in self._broken_resets if is_reset else self.num_steps in self._broken
        )
        return np.float32([np.nan] * 2) if is_broken else super()._observation()

    def _step(self, action):
        self.actions.append(action)
        return super()._step(action)


class ProportionalPolicy:
    """Acts with a hundredth of the sum of the observation, NaN for NaN."""

    def initial_state(self):
        return ()

    def action(self, time_step, state):
        return np.float32([np.sum(time_step.observation) / 100]), state


def test_an_evaluation_never_acts_on_nan_and_is_begun_anew(tmp_path, capsys):
    tickets = FakeTickets(NUM_ITER, 2)
    reader, run = FakeReader(tickets), make_run(tmp_path)
    environment = BrokenSensorEnv(broken={2}, resets={1})
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment,
                         policies=TapePolicies(greedy=ProportionalPolicy()))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert np.isfinite(environment.actions).all()
    assert len(environment.actions) == 2 + 0 + 3 + 3
    assert len(rows_of(run, "eval")) == 2
    assert read_report(run.paths, "worker_0").env_failures == 2
    printed = capsys.readouterr().err
    for env_step in (2, 0):
        assert f"observation is not finite at env step {env_step} of the episode" in printed


def test_collection_never_acts_on_the_nan_of_a_reset(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    environment = BrokenSensorEnv(broken=(), resets={1})
    worker = make_worker(run, FakeAdder(advance(reader)), reader, environment=environment,
                         policies=TapePolicies(collect=ProportionalPolicy()))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert np.isfinite(environment.actions).all()
    assert read_report(run.paths, "worker_0").env_failures == 1


def test_a_sensor_that_stays_broken_parks_the_worker_or_ends_it(tmp_path):
    reader = FakeReader()
    reader.publish_iteration(0)
    environment = BrokenSensorEnv(broken=(), resets=range(1000))
    worker = make_worker(make_run(tmp_path), FakeAdder(), reader, environment=environment)
    with pytest.raises(EnvironmentFailure) as error_info:
        worker.run(no_fill, None)
    assert "observation is not finite at env step 0" in str(error_info.value.__cause__)
    assert environment.actions == []


class ScribblingEnv(EpisodeStepEnv):
    """Writes into the actions that it gets, and into the observations that it has returned."""

    def __init__(self):
        super().__init__()
        self._buffer = np.zeros(2, np.float32)

    def _observation(self):
        self._buffer[:] = super()._observation()
        return self._buffer

    def _step(self, action):
        action *= 5
        return super()._step(action)


def test_what_the_policy_chose_and_saw_is_stored_whatever_the_environment_writes(tmp_path):
    class StepPolicy(ProportionalPolicy):
        def action(self, time_step, state):
            return np.float32([time_step.observation[1] / 10]), state

    run, reader, environment = make_run(tmp_path), FakeReader(), ScribblingEnv()
    observed = []
    run.params.train_observers_ctor = lambda: [_scribble, observed.append]
    with serving(tmp_path / "replay") as replay:
        adder = Adder(replay.client(), codec_of(environment), burst_length=3)
        is_confirmed = adder.is_confirmed

        def confirm(timeout_secs):
            on_confirm()
            return is_confirmed(timeout_secs)

        on_confirm = advance(reader, first=NUM_ITER - 4)
        adder.is_confirmed = confirm
        worker = make_worker(run, adder, reader, environment=environment,
                             policies=TapePolicies(collect=StepPolicy()))  # fmt: skip
        assert worker.run(no_fill, None) == EXIT_FINISHED
        stored = all_items(replay.client(), codec_of(environment))
    assert len(stored) >= 3
    for step in (*stored, *observed):
        np.testing.assert_allclose(step.action, [step.observation[1] / 10], rtol=1e-6)
    for step in stored:
        np.testing.assert_array_equal(step.next_observation, step.observation + [0, 1])


def _scribble(step):
    step.observation[:] = step.action[:] = 99


def test_a_worker_whose_environment_is_broken_leaves_its_tickets_to_others(tmp_path, monkeypatch):
    reader, run = FakeReader(FakeTickets(8, 5)), make_run(tmp_path)
    reader.publish_iteration(8)
    write_report(run.paths, worker_report(1))
    monkeypatch.setattr(workers.time, "sleep", lambda secs: reader.publish_iteration(NUM_ITER))
    worker = make_worker(run, FakeAdder(), reader, eval_environment=FailingEnv(range(1, 1000)))
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(reader.tickets.waiting) == 5 + 5  # the one it had is given back


def test_what_a_crash_has_lost_is_sent_after_each_checkpoint_before_the_next_episode(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(0)
    tape = []

    class TapeAdder(FakeAdder):
        def add(self, *step):
            tape.append("step")
            return super().add(*step)

        def send_lost(self, checkpoints):
            for _ in super().send_lost(checkpoints):
                tape.append("lost")
                yield

    def new_checkpoints():
        tape.append("asked")
        return [5, 2] if tape.count("asked") == 2 else None

    def on_confirm():
        if tape.count("asked") == 4:
            reader.publish_iteration(NUM_ITER)
        return True

    adder = TapeAdder(on_confirm, burst_length=3)
    make_worker(run, adder, reader, new_checkpoints=new_checkpoints).run(no_fill, None)
    episode = ["step"] * 3
    assert tape == [
        "asked",
        *episode,
        "asked",
        "lost",
        "lost",
        *episode,
        *(["asked", *episode] * 2),
    ]
    assert read_report(run.paths, "worker_0").items_sent_again == 5 + 2


def test_observers_get_the_trajectory_of_each_step_of_their_kind(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(NUM_ITER, 1))
    collected, evaluated, returns = [], [], py_metrics.AverageReturnMetric()
    run.params.train_observers_ctor = lambda id: [collected.append, returns]
    run.params.eval_observers_ctor = lambda: (evaluated.append,)
    environment = EpisodeStepEnv(ends=[(2, 0.0), (9, 1.0)])  # cut at the horizon, 3
    adder = FakeAdder(advance(reader, first=NUM_ITER - 2))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert all(isinstance(step, trajectory.Trajectory) for step in collected + evaluated)
    assert len(collected) == adder.num_added == environment.num_steps
    assert len(evaluated) == 3
    first, second, third, _, fifth = collected[:5]
    assert [int(step.step_type) for step in collected[:5]] == [0, 1, 0, 1, 1]
    assert [int(step.next_step_type) for step in collected[:5]] == [1, 2, 1, 1, 2]
    assert (first.reward, second.reward, second.discount) == (1.0, 2.0, 0.0)
    assert (third.observation.tolist(), fifth.reward, fifth.discount) == ([1, 0], 103.0, 1.0)
    assert first.action.shape == (1,) and first.policy_info == ()
    mean = ((1 + 2) + (101 + 102 + 103) + (201 + 202)) / 3
    assert returns.result() == pytest.approx(mean)


def test_an_observer_that_fails_is_no_failure_of_the_environment(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(0)

    def log_step(step):
        raise KeyError("my_metric")

    run.params.train_observers_ctor = lambda **kwargs: [log_step]
    worker = make_worker(run, FakeAdder(), reader)
    with pytest.raises(UserCodeError, match="log_step.* of TrainParams.* raised") as error_info:
        worker.run(no_fill, None)
    assert isinstance(error_info.value.__cause__, KeyError)


@pytest.mark.parametrize("result", [None, [3], "log"])
def test_a_hook_that_returns_no_observers_is_refused(result):
    def eval_observers_ctor():
        return result

    with pytest.raises(ConfigError, match="eval_observers_ctor returned .*allowed is a list of"):
        StepObservers(eval_observers_ctor, worker_id=0, horizon=3)


def test_a_time_limit_that_looks_like_a_termination_is_said_in_log_and_report(tmp_path, capsys):
    run, reader = make_run(tmp_path), FakeReader()  # episodes of 3 steps that end with discount 0
    make_worker(run, FakeAdder(advance(reader)), reader).run(no_fill, None)
    warning = "episodes ended after 3 steps (the horizon) with discount 0"
    assert capsys.readouterr().out.count(f"WARNING: 10 {warning}") == 1
    assert warning in read_report(run.paths, "worker_0").suspicion

    (tmp_path / "limited").mkdir()
    run, reader = make_run(tmp_path / "limited"), FakeReader()
    environment = EpisodeStepEnv(ends=[(3, 1.0)])
    adder = FakeAdder(advance(reader))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert read_report(run.paths, "worker_0").suspicion is None


def test_a_success_that_cannot_be_read_ends_nothing_and_is_said_once(tmp_path, capsys):
    environment, reader = EpisodeStepEnv(), FakeReader(FakeTickets(NUM_ITER, 3))
    environment.get_info = lambda: {"is_success": np.array([True, False])}
    run = make_run(tmp_path)
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert [row["success"] for row in rows_of(run, "eval")] == [""] * 3
    assert read_report(run.paths, "worker_0").remark == "SUCCESS CANNOT BE READ"
    printed = capsys.readouterr().out
    assert printed.count("NOTE: info['is_success'] is bool of shape (2,); allowed is a bool") == 1


def test_a_worker_sees_every_iteration_of_a_fast_run(tmp_path):
    curriculum = {"mass": {"iters": list(range(NUM_ITER)), "range": [0, NUM_ITER - 1]}}
    run, environment = make_run(tmp_path, curriculum, n_eval_episodes=0), EpisodeStepEnv()
    variables = [tf.Variable([1.0, 2.0])]
    with serving(tmp_path / "reverb") as replay:
        publisher = VariablePublisher(replay.client(), variables)
        publisher.publish(0)
        reader = VariableReader(replay.address, variables, sac_collect.VARIABLES_PERIOD_SECS)
        train_steps = itertools.count(STEPS_PER_ITER, STEPS_PER_ITER)
        adder = FakeAdder(lambda: publisher.publish(next(train_steps)))
        worker = make_worker(run, adder, reader, environment=environment)
        assert worker.run(no_fill, None) == EXIT_FINISHED
        reader.close()
    assert [state["mass"] for state in environment.states] == list(range(NUM_ITER))


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


class TapeLearner:
    """Answers each complete round by publishing the next of `iterations`."""

    def __init__(self, reader, iterations):
        self._reader = reader
        self._iterations = iter(iterations)
        self._reader.publish_iteration(next(self._iterations))
        self.environment = EpisodeStepEnv(ends=[(2, 0.0), (3, 1.0)])
        self.tape = []  # (iteration, env steps) of each complete round

    def take_round(self, train_step):
        self.tape.append((train_step // STEPS_PER_ITER, self.environment.num_steps))
        self._reader.publish_iteration(next(self._iterations))


def run_in_lock_step(run, iterations):
    adder = FakeAdder(burst_length=2)
    reader = FakeReader(FakeTickets(2, 3, num_iter=5))
    learner = TapeLearner(reader, iterations)
    make = functools.partial(LockStepWorker, publish_round=learner.take_round)
    worker = make_worker(run, adder, reader, environment=learner.environment, make=make)
    assert worker.run(no_fill, RandomPolicy(EpisodeStepEnv().action_spec(), 0)) == EXIT_FINISHED
    assert adder.num_unsent == 0
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


@pytest.fixture
def failed_reports():
    """Counts those of the test alone."""
    before = reporting.num_failed()
    return lambda: reporting.num_failed() - before


def broken(*arguments, **more):
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    "module, name",
    [
        (event_log.tf.summary, "create_file_writer"),
        (episode_log, "append_whole"),
        (reports, "write_json_atomically"),
        (reports, "overwrite"),
        (camera.Camera, "_write"),
        (camera.Camera, "end"),
        (worker_records.EpisodeEnds, "note"),
        (worker_records.PhaseTimer, "totals"),
    ],
)
def test_nothing_that_only_reports_ends_a_worker(
    tmp_path, monkeypatch, failed_reports, capsys, module, name
):
    run, reader = make_run(tmp_path, log_period_itrs=1), FakeReader(FakeTickets(8, 2))
    monkeypatch.setattr(module, name, broken)
    worker = make_worker(run, adder := FakeAdder(advance(reader)), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert adder.num_added >= 3 * (NUM_ITER - 1)
    said = capsys.readouterr().out
    is_said = "REPORT FAILED" in said or "No video of" in said
    assert is_said or (name == "overwrite" and not failed_reports())


def test_a_best_policy_that_cannot_be_kept_is_counted_in_the_status(tmp_path, failed_reports):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 2))
    worker = make_worker(run, FakeAdder(advance(reader)), reader)
    worker._keep_best = broken
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2
    assert failed_reports() == 6
    assert read_report(run.paths, "worker_0").failed_reports == reporting.num_failed()


@pytest.mark.parametrize("rewards", [(1e-3, 1e13), (1e308, 1e308), (np.nan, 1.0), (np.inf, -1.0)])
def test_evaluations_of_any_returns_are_recorded(tmp_path, rewards, failed_reports):
    class Rewarding(EpisodeStepEnv):
        def _step(self, action):
            time_step = super()._step(action)
            return time_step._replace(reward=rewards[self.num_steps % 2])

    run, reader = make_run(tmp_path, n_eval_episodes=2), FakeReader(FakeTickets(8, 2))
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=Rewarding())
    worker._keep_best = BestPolicyKeeper(run, [tf.Variable("")]).keep
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [8] * 2 + [16] * 2 + [20] * 2
    assert failed_reports() == 0
    assert read_report(run.paths, "worker_0").eval.iteration == 20


@pytest.mark.parametrize("make", [Worker, EvaluatingWorker])
def test_a_worker_ends_when_one_of_its_threads_fails(tmp_path, make):
    class Broken(Exception):
        pass

    def read_policies():
        raise Broken

    def on_confirm():
        if adder.num_added == 30:
            start_thread(read_policies, "variables").join()
        return True

    reader, adder = FakeReader(), FakeAdder(on_confirm)
    reader.publish_iteration(0)
    worker = make_worker(make_run(tmp_path), adder, reader, make=make)
    if make is EvaluatingWorker:
        start_thread(read_policies, "variables").join()
    with pytest.raises(Broken):
        worker.run(no_fill, None)
    assert adder.num_added <= 30 + 3


def test_the_status_shows_how_old_the_policy_is(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    worker = make_worker(run, FakeAdder(advance(reader)), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert 0 <= read_report(run.paths, "worker_0").policy_age_secs < 60
