"""What a cluster is asked for, whichever it is."""

import dataclasses

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.clusters.demand import Demand
from tfagents_system.launch.clusters.ray_plan import actors

REQUIRED = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json",
            "SAC_NUM_COLLECT_WORKERS": "10"}  # fmt: skip


def demand(**environ: str) -> Demand:
    return Demand.of(Settings.from_environ(REQUIRED | environ))


def test_shares_ask_for_the_cpus_of_their_programs():
    explicit = demand(SAC_REVERB_CPUS="2", SAC_TRAIN_CPUS="4", SAC_COLLECT_WORKER_CPUS="3",
                      SAC_WORKERS_PER_SHARE="4", SAC_EVAL_WORKERS="2")  # fmt: skip
    assert explicit.num_shares == 3  # of 4, 4 and 2 workers
    assert explicit.cpus("core") == 2 + 4
    assert explicit.cpus("workers") == 4 * 3
    assert explicit.cpus("evaluators") == 3
    automatic = demand()
    assert automatic.num_shares == 10
    assert (automatic.cpus("core"), automatic.cpus("workers")) == (1 + 2, 1)


def test_shares_are_told_what_was_automatic():
    told = Settings.from_environ(REQUIRED | demand(SAC_TRAIN_CPUS="4").environ())
    assert (told.reverb_cpus, told.train_cpus, told.collect_worker_cpus) == (1, 4, 1)
    assert (told.num_collect_workers, told.workers_per_share, told.eval_workers) == (10, 1, 0)


def test_an_offline_run_asks_for_no_workers_and_tells_its_shares_so():
    settings = Settings.from_environ(REQUIRED)
    offline = Demand.of(dataclasses.replace(settings, num_collect_workers=0, eval_workers=1))
    assert (offline.num_shares, offline.num_evaluators) == (0, 1)
    told = Settings.from_environ(REQUIRED | offline.environ())
    assert (told.num_collect_workers, told.eval_workers) == (None, 1)  # 0 is no number of workers
    assert [actor.arguments for actor in actors(offline)] == [("core",), ("evaluators", "0", "1")]


@pytest.mark.parametrize("placement", ["slurm", "ray"])
def test_an_automatic_number_of_workers_is_refused(placement):
    with pytest.raises(
        ConfigError, match=f"_WORKERS is auto and SAC_PLACEMENT is {placement}; set a number"
    ):
        demand(SAC_NUM_COLLECT_WORKERS="auto", SAC_PLACEMENT=placement)


def test_what_is_too_large_for_any_node_is_shown_as_a_sum():
    asked = demand(SAC_COLLECT_WORKER_CPUS="3", SAC_WORKERS_PER_SHARE="4")
    assert (
        "the 12 CPUs of the workers (SAC_WORKERS_PER_SHARE = 4 x SAC_COLLECT_WORKER_CPUS = 3)"
        in (asked.advice("workers"))
    )
    assert "the 3 CPUs of the evaluators (SAC_COLLECT_WORKER_CPUS = 3)" in asked.advice(
        "evaluators"
    )
