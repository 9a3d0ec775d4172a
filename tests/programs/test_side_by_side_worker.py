"""A worker whose environments take their env steps side by side."""

import itertools
import types

import numpy as np
import pytest
from parallel_fakes import ParallelWorld
from replay_fakes import EpisodeStepEnv, SleepingWatchdog, Stop
from worker_fakes import (
    NUM_ITER,
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

from tfagents_system.collection import worker_base
from tfagents_system.collection.newest_policies import NewestPolicies
from tfagents_system.collection.rejections import MAX_IN_A_ROW
from tfagents_system.collection.side_by_side_worker import SideBySideWorker
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.environments.pettingzoo_adapter import ParallelEnvironment
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.policies.acting import RandomPolicy


def environments_of(*lengths):
    return [EpisodeStepEnv(ends=[(length, 0.0)]) for length in lengths]


def test_each_episode_is_recorded_and_env_steps_of_all_slots_count(tmp_path):
    run, reader, slots = make_run(tmp_path), FakeReader(), environments_of(1, 2, 3)
    adder = FakeAdder(advance(reader))
    worker = make_worker(run, adder, reader, environment=slots[0], others=slots[1:])
    assert worker.run(no_fill, None) == EXIT_FINISHED
    rows = rows_of(run, "collect")
    # The slots end in turn 1, 1 and 2, 1 and 3; the reward of a step is 100 episode + step.
    assert [(int(r["length"]), float(r["return"])) for r in rows[:5]] == [
        (1, 1.0), (1, 101.0), (2, 1.0 + 2.0), (1, 201.0), (3, 1.0 + 2.0 + 3.0),
    ]  # fmt: skip
    env_steps = [int(row["env_step"]) for row in rows]
    assert env_steps[:5] == [1, 4, 5, 7, 9]
    assert adder.slots[:9] == [0, 1, 2] * 3 and adder.ended[:5] == [0, 0, 1, 0, 2]
    assert adder.num_added == sum(environment.num_steps for environment in slots)
    assert read_report(run.paths, "worker_0").env_steps == adder.num_added
    assert adder.num_unsent == 0


def test_the_interventions_of_each_slot_are_told_to_the_adder(tmp_path):
    class TakenOverEnv(EpisodeStepEnv):
        def get_info(self):
            return {"intervention": self._position == 2}

    run, reader = make_run(tmp_path), FakeReader()
    slots = [EpisodeStepEnv(ends=[(2, 0.0)]), TakenOverEnv(ends=[(3, 0.0)])]
    adder = FakeAdder(advance(reader))
    worker = make_worker(run, adder, reader, environment=slots[0], others=slots[1:])
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert adder.num_interventions == {0: 0, 1: (slots[1].num_steps + 1) // 3}


def test_an_episode_has_the_curriculum_of_its_start(tmp_path):
    curriculum = {"level": {"iters": [0, 4], "range": [1, 9]}}
    run, reader, slots = make_run(tmp_path, curriculum), FakeReader(), environments_of(3, 1)
    adder = FakeAdder(advance(reader), burst_length=2)
    make_worker(run, adder, reader, environment=slots[0], others=slots[1:]).run(no_fill, None)
    # A tick is a burst, after which comes the next iteration; slot 0 begins at 0, 3 and 6.
    assert slots[0].states == slots[1].states == [{"level": 1}, {"level": 9}]
    rows = rows_of(run, "collect")
    assert len(rows) > 20


def test_the_fill_ends_when_it_is_enough_and_its_episodes_with_it(tmp_path):
    class TapePolicy(RandomPolicy):
        def actions(self, slots, time_steps, states):
            tape.append(list(slots))
            return super().actions(slots, time_steps, states)

    tape, reader, slots = [], FakeReader(), environments_of(3, 3)
    adder = FakeAdder(advance(reader, first=NUM_ITER - 4), burst_length=2)
    worker = make_worker(make_run(tmp_path), adder, reader, environment=slots[0], others=slots[1:])
    policy = TapePolicy(slots[0].action_spec(), 0)
    assert worker.run(lambda: 4 - adder.num_added, policy) == EXIT_FINISHED
    assert tape == [[0, 1]] * 2
    assert sorted(adder.ended[:2]) == [0, 1]
    assert adder.slots[4:6] == [0, 1] and slots[0].num_steps > 2


def test_a_pause_that_is_reported_while_sending_ends_the_episodes_before_another_env_step(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(0)
    slots = environments_of(3, 3)
    adder = FakeAdder(burst_length=4)
    worker = make_worker(run, adder, reader, environment=slots[0], others=slots[1:])
    worker._send = lambda phase: setattr(worker, "_is_paused", lambda: True)
    copied = []
    worker._add_copies = lambda slot, phase: copied.append(slot) or True
    worker._begin(Phase.COLLECTING, worker._policies.collect)
    worker._collect(Phase.COLLECTING, worker._policies.collect)
    assert [slot.num_steps for slot in slots] == [2, 2]
    assert not worker._episodes.are_running
    assert copied == [0, 1]  # of what they have had so far, with other goals


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_stop_and_a_pause_end_all_episodes_and_leave_nothing_unsent(
    tmp_path, monkeypatch, is_paused
):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    sleeper = types.SimpleNamespace(sleep=lambda secs: setattr(stop, "is_set", True))
    monkeypatch.setattr(worker_base, "time", sleeper)  # the pause ends with the run
    reader.publish_iteration(0)
    slots = environments_of(3, 3)
    adder = FakeAdder(burst_length=100)

    def step(slot, *args):
        if slots[0].num_steps == 5 and is_paused:
            worker._is_paused = lambda: True
        elif slots[0].num_steps == 5:
            adder._burst_length, stop.is_set = 1, True
        return observe(slot, *args)

    worker = make_worker(run, adder, reader, stop=stop, environment=slots[0], others=slots[1:])
    observe, worker._episodes._observe = worker._episodes._observe, step
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert read_report(run.paths, "worker_0").phase == Phase.STOPPED
    assert adder.num_added == 2 * 5 and adder.num_unsent == 0
    assert sorted(adder.ended) == [0, 0, 1, 1]
    assert len(rows_of(run, "collect")) == 2  # the complete ones


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_stop_ends_a_worker_whose_agents_do_not_come_or_never_ask_again(tmp_path, has_begun):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    reader.publish_iteration(0)
    first, other = environments_of(3, 3)
    worker = make_worker(run, FakeAdder(), reader, stop=stop, environment=first, others=[other])
    num_ticks = itertools.count()

    def step(actions):
        stop.is_set = next(num_ticks) >= 3
        return {}

    worker._slots.step = step
    if not has_begun:
        worker._slots.reset = lambda states: {}
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert next(num_ticks) == 4


def test_evaluations_come_between_episodes_that_go_on(tmp_path):
    run, slots = make_run(tmp_path), environments_of(3, 2)
    reader = FakeReader(FakeTickets(5, 2))
    adder = FakeAdder(advance(reader))
    worker = make_worker(run, adder, reader, environment=slots[0], others=slots[1:])
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert iterations_evaluated(run) == [5, 5, 10, 10, 15, 15, 20, 20]
    lengths = [int(row["length"]) for row in rows_of(run, "collect")]
    assert set(lengths) == {2, 3}


def test_a_failure_of_one_slot_ends_only_its_episode(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    failing, working = FailingEnv({5}), EpisodeStepEnv()
    adder = FakeAdder(advance(reader))
    worker = make_worker(run, adder, reader, environment=failing, others=[working])
    assert worker.run(no_fill, None) == EXIT_FINISHED
    report = read_report(run.paths, "worker_0")
    assert (report.env_failures, adder.num_added) == (1, failing.num_steps + working.num_steps)
    assert {int(row["length"]) for row in rows_of(run, "collect")} == {3}


def make_worker_of_agents(run, adder, reader, world, num_agents):
    """Returns a worker whose slots are the agents of a world."""
    environment = ParallelEnvironment(world, 1)
    replaceable = ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())
    worker = make_worker(run, adder, reader, others=environments_of(*[3] * (num_agents - 1)))
    environments = worker._environments._replace(collect=replaceable, others=[])
    policies = TapePolicies(collect=RandomPolicy(environment.action_spec(), 0))
    return SideBySideWorker(
        run, environments, NewestPolicies(policies, reader), worker._experience, worker._records,
        should_stop=lambda: False, tickets=None, keep_best=lambda version: None,
    )  # fmt: skip


def test_a_worker_parks_after_five_failures_in_a_row_of_its_simulator(tmp_path):
    class Broken(ParallelWorld):
        def step(self, actions):
            raise RuntimeError("the motor is gone")

    reader, world = FakeReader(), Broken(num_agents=4)
    reader.publish_iteration(0)
    worker = make_worker_of_agents(make_run(tmp_path), FakeAdder(), reader, world, 4)
    with pytest.raises(EnvironmentFailure, match=r"gone.*\(failure 5 of this environment\)"):
        worker.run(no_fill, None)
    assert worker_base.MAX_FAILURES_IN_A_ROW == 5


def test_the_action_of_one_agent_that_cannot_be_ends_the_episodes_of_its_simulator(tmp_path):
    class TakenOver(ParallelWorld):
        num_steps = 0

        def step(self, actions):
            results = super().step(actions)
            self.num_steps += 1
            if self.num_steps == 2:
                results[4]["walker_0"]["action"] = [7.0]  # bounds are -1 and 1
            return results

    run, reader = make_run(tmp_path), FakeReader()
    adder = FakeAdder(advance(reader))
    worker = make_worker_of_agents(run, adder, reader, TakenOver(3, ends=0.0, limit=3), 3)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    report = read_report(run.paths, "worker_0")
    assert report.env_failures == 1 and "info['action']" in report.failure
    assert adder.ended[:4] == [0, 0, 1, 2]  # at once, and as one of its simulator
    assert adder.slots[:5] == [0, 1, 2] + [1, 2]  # the step of slot 0 has an unknown action


def test_an_agent_that_would_go_on_with_a_wrong_shape_is_a_failure_of_its_simulator(tmp_path):
    class Wide(ParallelWorld):
        num_steps = 0

        def step(self, actions):
            results = super().step(actions)
            self.num_steps += 1
            if self.num_steps == 2:
                results[0]["walker_0"] = np.zeros(4, np.float32)  # its space says 3
            return results

    class RealAdder(FakeAdder):
        def add(self, time_step, action, next_time_step, state, slot=0, is_intervention=False):
            super().add(time_step, action, next_time_step, state, slot)
            return next_time_step.observation.shape == (3,)

    run = make_run(tmp_path)
    FIRST_EPISODE.set_run(run.paths)
    FIRST_EPISODE.end()
    reader = FakeReader()
    adder, world = RealAdder(advance(reader)), Wide(3, ends=0.0, limit=5)
    worker = make_worker_of_agents(run, adder, reader, world, 3)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    report = read_report(run.paths, "worker_0")
    assert report.env_failures == 1
    assert "Wide.reset returned observation of shape [4]; its observation_spec says [3]" in (
        report.failure
    )


def test_a_worker_parks_if_every_step_of_each_agent_is_rejected(tmp_path):
    class RejectingAdder(FakeAdder):
        def add(self, *args, **kwargs):
            self.rejected["observation is not finite"] += 1
            return False

    reader, world, adder = FakeReader(), ParallelWorld(num_agents=3), RejectingAdder()
    reader.publish_iteration(0)
    worker = make_worker_of_agents(make_run(tmp_path), adder, reader, world, 3)
    with pytest.raises(EnvironmentFailure, match="The last 60 env steps of ParallelWorld were all"):
        worker.run(no_fill, None)
    assert MAX_IN_A_ROW * 3 == 60
    assert adder.rejected.total() == 60 * worker_base.MAX_FAILURES_IN_A_ROW


def test_a_worker_parks_after_as_many_failures_in_a_row_of_each_slot(tmp_path):
    run, reader, slots = make_run(tmp_path), FakeReader(), [FailingEnv(range(99)) for _ in "ab"]
    reader.publish_iteration(0)
    worker = make_worker(run, FakeAdder(), reader, environment=slots[0], others=slots[1:])
    with pytest.raises(Exception, match="the motor is gone"):
        worker.run(no_fill, None)  # there is no other worker
    num_attempts = sum(environment.num_attempts for environment in slots)
    assert num_attempts == 2 * worker_base.MAX_FAILURES_IN_A_ROW
