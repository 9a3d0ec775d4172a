"""Arithmetic of the prediction, by hand."""

import dataclasses
import math
import types

import pytest

from tfagents_system.commands.checks import forecast
from tfagents_system.commands.checks.learner_speed import LearnerSpeed
from tfagents_system.commands.checks.measurements import Measured
from tfagents_system.commands.checks.prediction import (
    Allotment,
    Speeds,
    Work,
    predict,
    workers_worth_having,
)
from tfagents_system.commands.checks.rows import busy_rows
from tfagents_system.core.process import cgroups, cpus
from tfagents_system.core.settings.variables import Settings
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.launch.local import places
from tfagents_system.train_params_base import TrainParamsBase

ROW_BYTES = 40
SPEEDS = Speeds(env_step=0.02, env_step_cpu=0.005, eval_step=0.01, train_step=0.004,
                train_step_cpu=0.006, start=10.0)  # fmt: skip
ALLOTMENT = Allotment(num_cpus=4, num_workers=2, num_evaluators=0, replay_cpus=1, shares=False)
WORK = Work(train_steps=10_000, env_steps=5_000, fill_env_steps=400, eval_env_steps=1_000,
            samples=640_000, replay_bytes=1e6)  # fmt: skip


class Params(TrainParamsBase):
    num_iter = 25
    num_steps_per_iter = 200
    n_train_episodes_per_iter = 2
    n_buffer_init_episodes = 5
    n_episodes_in_buffer = 80
    eval_period_itrs = 10
    n_eval_episodes = 4

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("not needed")


def work_of(params, episode_length):
    return Work.of_run(params, ItemLayout.from_settings(params), ROW_BYTES, episode_length)


def test_work_of_full_episodes():
    params = Params({"horizon": 100})
    work = work_of(params, episode_length=100)
    assert work.train_steps == 25 * 200
    assert work.env_steps == 25 * 2 * 100
    assert work.fill_env_steps == 5 * 100
    assert work.eval_env_steps == 3 * 4 * 100  # after 10 and 20 iterations, and at the end
    assert work.samples == 25 * 200 * 64
    params.update_ratio, params.max_update_ratio = "auto", 5.0
    automatic = work_of(params, episode_length=100)
    assert automatic.env_steps == 25 * 200 / 5  # at least
    blocks = 80 * (100 + 1) / 8
    assert work.replay_bytes == pytest.approx(blocks * (900 + 9 * ROW_BYTES))


def test_short_episodes_need_fewer_env_steps_for_as_many_items():
    params = Params({"horizon": 100})
    work = work_of(params, episode_length=10)
    assert work.env_steps == pytest.approx(25 * 2 * 100 * (1 + 1 / 100) / (1 + 1 / 10))
    assert work.eval_env_steps == 3 * 4 * 10


def test_a_run_takes_as_long_as_its_slowest_part():
    prediction = predict(WORK, SPEEDS, ALLOTMENT)
    assert prediction.needs == pytest.approx({
        "workers": (5_000 * 0.02 + 1_000 * 0.01) / 2,
        "learner": 10_000 * 0.004,
        "replay server": 640_000 * 0.07e-3 / 64,
    })  # fmt: skip
    assert prediction.bottleneck == "workers"
    assert prediction.start == 10.0
    assert prediction.fill == pytest.approx(400 * 0.02 / 2)
    assert prediction.total == pytest.approx(10 + 4 + 55)
    four = predict(WORK, SPEEDS, dataclasses.replace(ALLOTMENT, num_workers=4))
    assert (four.bottleneck, four.training) == ("learner", pytest.approx(40))


def test_evaluators_take_evaluation_from_the_workers():
    prediction = predict(WORK, SPEEDS, dataclasses.replace(ALLOTMENT, num_evaluators=1))
    assert prediction.needs["workers"] == pytest.approx(5_000 * 0.02 / 2)
    assert prediction.needs["evaluators"] == pytest.approx(1_000 * 0.01)


def test_programs_that_share_cpus_may_wait_for_those():
    shared = dataclasses.replace(ALLOTMENT, num_cpus=1, num_workers=4, shares=True)
    prediction = predict(WORK, SPEEDS, shared)
    cpu_secs = (5_000 * 0.02 + 1_000 * 0.01) * 0.005 / 0.02 + 10_000 * 0.006 + 0.7
    assert (prediction.bottleneck, prediction.training) == ("CPUs", pytest.approx(cpu_secs))
    assert prediction.start == 10 * 6  # 4 workers, learner and server start on one CPU


def test_a_deterministic_run_takes_turns():
    alone = dataclasses.replace(ALLOTMENT, num_workers=1, takes_turns=True)
    assert predict(WORK, SPEEDS, alone).training == pytest.approx(110 + 40)


def test_workers_are_worth_having_until_something_else_is_slower():
    # The learner needs 40 s, or 44 s to be hardly slower: 110 s of collection in 3 parts.
    assert workers_worth_having(WORK, SPEEDS, ALLOTMENT) == 3
    assert workers_worth_having(WORK, SPEEDS, ALLOTMENT, most=2) == 2
    # Simulators that compute fill the CPUs: 2 with 110 s of simulation and 60 s of learning.
    computing = dataclasses.replace(SPEEDS, env_step_cpu=0.02)
    two = dataclasses.replace(ALLOTMENT, num_cpus=2)
    assert workers_worth_having(WORK, computing, two) == 2  # 85.35 s for any number from 2 on


@pytest.mark.parametrize("quota", [math.inf, 2.0])
def test_programs_are_placed_as_those_of_the_run(monkeypatch, quota):
    monkeypatch.setattr(cgroups, "cpu_quota", lambda: quota)
    for module in (places, cpus):
        monkeypatch.setattr(module, "available_cpus", lambda: tuple(range(8)))
    asked = []

    def measured(environ, cpus, num_threads, program_environ):
        asked.append((len(cpus), num_threads))
        return LearnerSpeed(0.004, 0.006, 10.0, 100.0, 300.0, "float32")

    monkeypatch.setattr(forecast, "measure_learner", measured)
    params = Params({"horizon": 100})
    made = types.SimpleNamespace(layout=ItemLayout.from_settings(params), row_bytes=ROW_BYTES)
    environ = {"SAC_EXP_NAME": "a", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json"}
    settings = Settings.from_environ(environ)
    found = forecast.make_forecast(
        settings, environ, params, made, Measured(step_secs=0.02, cpu_secs=0.01, episode_length=9)
    )
    # Of 8 CPUs, the learner has 2 and the replay server 1. A quota of 2 is shared: the programs,
    # which need a CPU each, may run on all 8, of which 2 work at a time.
    is_limited = quota == 2.0
    allotment = found.allotment
    assert (allotment.num_cpus, allotment.shares) == ((2, True) if is_limited else (8, False))
    assert allotment.num_workers == (1 if is_limited else 8 - 2 - 1)
    assert allotment.replay_cpus == (2 if is_limited else 1)
    assert asked == [(8, 2) if is_limited else (2, 2)]
    assert ("CPUs" in found.prediction.needs) == is_limited


def test_agents_of_one_simulator_share_its_leaks():
    learner = LearnerSpeed(0.004, 0.006, 10.0, 100.0, 300.0, "float32")
    rows = {}
    for num_slots in (1, 4):
        measured = Measured(num_slots, episode_length=10, leak_mb=1.0, worker_own_mb=50.0)
        rows[num_slots] = forecast._memory_row(
            forecast.Forecast(WORK, SPEEDS, ALLOTMENT, learner), measured
        ).value
    # 5,000 env steps are 500 episodes, with 1 MB each, or of 4 agents at once.
    assert "leaks of the environments 500.0 MB" in rows[1]
    assert f"leaks of the environments {500 / 4} MB" in rows[4]


def test_speeds_measured_beside_other_programs_say_so():
    assert busy_rows(load=0.5 * 4 - 0.1, num_cpus=4) == []
    (row,) = busy_rows(load=6.0, num_cpus=4)
    assert (row.verdict, row.value[:43]) == ("note", "about 6.0 programs were running on 4 CPUs w")
