import dataclasses
import json
import time

import numpy as np
import pytest
import tensorflow as tf
from fakes import FakeClock
from replay_fakes import serving
from tf_agents.specs import tensor_spec

from benchmarks.environments import FreeEnv
from benchmarks.ours.host_loss import TrainingWatch
from benchmarks.ours.hosts import Sample, print_results
from benchmarks.ours.paced_workers import PacedWorker
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import experience_stats

BLOCKS = ItemLayout(8)
SPECS = (
    tf.TensorSpec([FreeEnv.observation_size]),
    tensor_spec.BoundedTensorSpec([FreeEnv.action_size], tf.float32, -1.0, 1.0),
)


class EndOfTestError(Exception):
    pass


class CountingReader:
    """Lets a worker collect a number of episodes."""

    def __init__(self, num_episodes):
        self.num_left = num_episodes

    def refresh(self, timeout_secs):
        if self.num_left == 0:
            raise EndOfTestError
        self.num_left -= 1


def test_a_paced_worker_sends_a_workers_bursts_at_the_pace_of_the_simulator(tmp_path, monkeypatch):
    tape = []
    monkeypatch.setattr(time, "sleep", tape.append)
    paths = ExperimentPaths(tmp_path)
    with serving(tmp_path / "replay") as server:
        adder = Adder(server.client(), step_codec(*SPECS, BLOCKS), BLOCKS)
        send = adder.send
        monkeypatch.setattr(adder, "send", lambda: (tape.append("send"), send()))
        reporter = StatusReporter(paths, "worker_3", period_secs=0.0)
        worker = PacedWorker(adder, CountingReader(2), reporter, horizon=100, seed=0)
        with pytest.raises(EndOfTestError):
            worker.run()
        assert adder.is_confirmed(timeout_secs=60)
        num_blocks = experience_stats(server.client(), 5.0)[1]

    # Rows: 201 + 1, the first of each episode; the stream of blocks repeats every ninth.
    num_sent = tape.count("send")
    first_wait, *paced = tape
    assert 0 <= first_wait <= 1
    assert [paced[1::2], len(paced)] == [["send"] * num_sent, 2 * num_sent]
    report = read_report(paths, "worker_3")
    assert report.phase == Phase.COLLECTING
    np.testing.assert_allclose(sum(paced[::2]), report.env_steps * 0.01)
    assert 150 < report.env_steps <= 200
    # A burst has at least 48 rows in whole blocks of 9, that is 6 blocks.
    assert num_blocks == 6 * num_sent


def reports_at(tmp_path, written_at, env_steps):
    paths = ExperimentPaths(tmp_path)
    fields = {"phase_secs": {}, "env_steps_per_sec": 0.0, "last_return": None, "eval": None,
              "curriculum": {}}  # fmt: skip
    found = {}
    for number, steps in enumerate(env_steps):
        name = f"worker_{number}"
        StatusReporter(paths, name).report_now(Phase.COLLECTING, {**fields, "env_steps": steps})
        found[name] = dataclasses.replace(read_report(paths, name), written_at=written_at)
    return found


def test_results_are_rates_shares_and_bytes_of_a_worker(tmp_path, capsys):
    first = Sample(50.0, reports_at(tmp_path, 1000.0, (10, 20)), (7_000, 1_000), (1.0, 2.0, 3.0))
    last = Sample(
        60.0, reports_at(tmp_path, 1010.0, (910, 1020)), (407_000, 9_001_000), (1.5, 3.0, 3.8)
    )

    print_results(first, last, num_hosts=4, linked=True)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["metric"]: pytest.approx(line["value"]) for line in lines} == {
        "env_steps_per_sec": 900 / 10 + 1000 / 10,
        "share_of_full_rate": 100 * (90 + 100) / (2 * 100),
        "kb_per_sec_from_each_worker": 400 / 10 / 2,
        "kb_per_sec_to_each_worker": 9000 / 10 / 2,
        "replay_server_cpus": 0.5 / 10,
        "core_relay_cpus": 1.0 / 10,
        "relay_cpus_of_a_host": 0.8 / 10 / 4,
    }


def test_the_longest_gap_of_training_is_that_between_reports_with_more_train_steps(
    tmp_path, monkeypatch
):
    paths, clock = ExperimentPaths(tmp_path), FakeClock()
    monkeypatch.setattr(time, "monotonic", clock)
    fields = {"phase_secs": {}, "total_train_steps": 100, "iteration": 0, "num_iter": 1,
              "train_steps_per_sec": 0.0, "graph_traces": 1, "arithmetic": "float32"}  # fmt: skip
    learner, watch = StatusReporter(paths, "learner"), TrainingWatch(paths)
    watch.look()  # before the first report
    for clock.now, train_step in ((110.0, 5), (111.0, 6), (112.0, 6), (113.5, 7), (114.0, 8)):
        learner.report_now(Phase.TRAINING, {**fields, "train_step": train_step})
        watch.look()

    assert watch.longest_gap_secs == 113.5 - 111.0
