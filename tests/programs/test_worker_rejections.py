"""Workers whose env steps are rejected: now and then, or always."""

import numpy as np
import pytest
from replay_fakes import EpisodeStepEnv, codec_of
from report_fakes import worker_report, write_report
from worker_fakes import (
    NUM_ITER,
    FakeReader,
    advance,
    make_run,
    make_worker,
    no_fill,
    rows_of,
)

from tfagents_system.collection import worker_base
from tfagents_system.collection.rejections import MAX_IN_A_ROW
from tfagents_system.collection.worker_base import MAX_FAILURES_IN_A_ROW
from tfagents_system.core.errors import EXIT_FINISHED
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder

MOST = MAX_IN_A_ROW * MAX_FAILURES_IN_A_ROW


class BrokenSensorEnv(EpisodeStepEnv):
    """Observes NaN, or a vector of 3, at the env steps, from 1 over all episodes, in `broken`."""

    def __init__(self, broken, observed=(np.nan, np.nan)):
        super().__init__()
        self._broken, self._observed = broken, np.float32(observed)

    def _observation(self):
        is_broken = self._position and self.num_steps in self._broken
        return self._observed if is_broken else super()._observation()


def real_adder(reader=None, num_slots=1):
    """Returns an adder without a server, whose bursts publish the next iteration."""
    adder = Adder(ItemRecorder(), codec_of(EpisodeStepEnv()), burst_length=3, num_slots=num_slots)
    if reader:
        on_confirm = advance(reader)
        adder.is_confirmed = lambda timeout_secs: on_confirm()
    return adder


@pytest.mark.parametrize(
    "observed, reason",
    [([np.nan, 0], "observation is not finite"), ([0, 0, 0], "observation has shape (3,)")],
)
def test_a_worker_of_which_every_env_step_is_rejected_fails(tmp_path, observed, reason):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = BrokenSensorEnv(range(10**6), observed)
    worker = make_worker(run, real_adder(), reader, environment=environment)
    with pytest.raises(EnvironmentFailure) as error_info:
        worker.run(no_fill, None)
    assert environment.num_steps == MOST
    message = str(error_info.value)
    assert f"The last {MAX_IN_A_ROW} env steps of BrokenSensorEnv were all rejected" in message
    assert reason in message and f"({MOST})" in message and "sac check" in message
    assert f"(failure {MAX_FAILURES_IN_A_ROW} of this environment)" in message
    assert error_info.value.kept_nothing  # however long it took, a new start would not help


def test_it_parks_while_another_worker_collects(tmp_path, monkeypatch):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = BrokenSensorEnv(range(10**6))
    write_report(run.paths, worker_report(1, phase=Phase.COLLECTING))
    worker = make_worker(run, real_adder(), reader, environment=environment)
    phases = []

    def sleep(secs):
        phases.append(read_report(run.paths, "worker_0").phase)
        reader.publish_iteration(NUM_ITER)

    monkeypatch.setattr(worker_base.time, "sleep", sleep)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert environment.num_steps == MOST
    report = read_report(run.paths, "worker_0")
    assert (report.env_failures, report.rejected_steps) == (MAX_FAILURES_IN_A_ROW, MOST)
    assert phases and "were all rejected" in report.failure


def test_while_steps_are_rejected_the_status_says_so(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = BrokenSensorEnv(range(10**6))
    worker = make_worker(run, real_adder(), reader, environment=environment)
    reports = []
    worker._report = reports.append
    worker._collect(Phase.COLLECTING, worker._policies.collect)
    assert reports[-1] == Phase.COLLECTING


def test_an_environment_that_keeps_a_step_now_and_then_goes_on(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    # One step is kept after each MAX_IN_A_ROW - 1 rejected ones, and no episode is complete.
    num_broken = 10 * MAX_IN_A_ROW
    environment = BrokenSensorEnv({n for n in range(1, num_broken) if n % MAX_IN_A_ROW})
    adder = real_adder()

    def confirm(timeout_secs):
        if environment.num_steps > num_broken:
            reader.publish_iteration(NUM_ITER)
        return True

    adder.is_confirmed = confirm
    worker = make_worker(run, adder, reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert adder.rejected.total() == 10 * (MAX_IN_A_ROW - 1) > MOST
    report = read_report(run.paths, "worker_0")
    assert (report.env_failures, report.phase) == (0, Phase.FINISHED)


def test_a_failure_after_kept_steps_is_not_from_the_start(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    environment = BrokenSensorEnv(range(4, 10**6))
    worker = make_worker(run, real_adder(), reader, environment=environment)
    with pytest.raises(EnvironmentFailure) as error_info:
        worker.run(no_fill, None)
    assert environment.num_steps == 3 + MOST
    assert len(rows_of(run, "collect")) == 1
    assert not error_info.value.kept_nothing


def test_a_slot_of_which_every_step_is_rejected_is_replaced_while_others_go_on(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    adder = real_adder(reader, num_slots=2)
    broken, working = BrokenSensorEnv(range(10**6)), EpisodeStepEnv()
    worker = make_worker(run, adder, reader, environment=broken, others=[working])
    assert worker.run(no_fill, None) == EXIT_FINISHED
    report = read_report(run.paths, "worker_0")
    assert report.env_failures == broken.num_steps // MAX_IN_A_ROW >= 1
    assert {int(row["length"]) for row in rows_of(run, "collect")} == {3}


def test_a_worker_with_slots_fails_if_every_step_of_each_is_rejected(tmp_path):
    reader, run = FakeReader(), make_run(tmp_path)
    reader.publish_iteration(0)
    slots = [BrokenSensorEnv(range(10**6)) for _ in "ab"]
    adder = real_adder(num_slots=2)
    worker = make_worker(run, adder, reader, environment=slots[0], others=slots[1:])
    with pytest.raises(EnvironmentFailure, match="were all rejected"):
        worker.run(no_fill, None)
    assert [slot.num_steps for slot in slots] == [MOST, MOST]
