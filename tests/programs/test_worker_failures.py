"""Environments and threads that fail, and user code that writes where it should not."""

import numpy as np
import pytest
from replay_fakes import EpisodeStepEnv, all_items, codec_of, serving
from report_fakes import worker_report, write_report
from slot_fakes import SlotEnv
from worker_fakes import (
    NUM_ITER,
    FailingEnv,
    FakeAdder,
    FakeReader,
    FakeTickets,
    TapePolicies,
    advance,
    make_run,
    make_worker,
    no_fill,
    rows_of,
)

from tfagents_system import workers
from tfagents_system.collection import worker_base
from tfagents_system.collection.evaluating_worker import EvaluatingWorker
from tfagents_system.core.errors import EXIT_FINISHED
from tfagents_system.core.process.background import start_thread
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.services.adder import Adder
from tfagents_system.workers import Worker


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
    assert environment.num_attempts == worker_base.MAX_FAILURES_IN_A_ROW


@pytest.mark.parametrize("phase_of_other", [Phase.COLLECTING, Phase.PARKED])
def test_a_worker_parks_while_another_collects(tmp_path, monkeypatch, phase_of_other):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = FailingEnv(range(1, 1000))
    worker = make_worker(run, FakeAdder(), reader, environment=environment)
    write_report(run.paths, worker_report(1, phase=phase_of_other))

    def sleep(secs):
        if environment.num_attempts == worker_base.MAX_FAILURES_IN_A_ROW:
            reader.publish_iteration(NUM_ITER)

    monkeypatch.setattr(workers.time, "sleep", sleep)
    if phase_of_other == Phase.PARKED:
        with pytest.raises(EnvironmentFailure):
            worker.run(no_fill, None)
    else:
        assert worker.run(no_fill, None) == EXIT_FINISHED
        assert environment.num_attempts == worker_base.MAX_FAILURES_IN_A_ROW


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


class WideSlotEnv(SlotEnv):
    """Slot 1 of 2 observes a vector of 3 instead of 2 in the second step after the first reset."""

    def __init__(self):
        super().__init__([[3], [3]])

    def _observe(self, slot):
        is_wide = slot == 1 and self._steps[slot] == 2 and self.tape.count("reset") == 1
        return np.zeros(3, np.float32) if is_wide else super()._observe(slot)


class StackingPolicy(ProportionalPolicy):
    def initial_state(self, slot=0):
        return ()

    def actions(self, slots, time_steps, states):
        np.stack([time_step.observation for time_step in time_steps])
        return [self.action(time_step, ())[0] for time_step in time_steps], states


def test_an_evaluation_of_slots_with_a_wrong_shape_is_begun_anew(tmp_path, capsys):
    reader, run = FakeReader(FakeTickets(NUM_ITER, 2)), make_run(tmp_path)
    environment = WideSlotEnv()
    worker = make_worker(run, FakeAdder(advance(reader)), reader, eval_environment=environment,
                         policies=TapePolicies(greedy=StackingPolicy()))  # fmt: skip
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert len(rows_of(run, "eval")) == 2
    assert environment.tape.count("reset") == 2
    assert read_report(run.paths, "worker_0").env_failures == 1
    assert "observation has shape [3] at env step 2 of the episode" in capsys.readouterr().err


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
