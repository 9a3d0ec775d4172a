import os

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.cpus import allot_cpus, available_cpus, cpu_list


def test_available_cpus_is_the_affinity_mask():
    assert available_cpus() == tuple(sorted(os.sched_getaffinity(0)))


def test_allot_cpus_gives_disjoint_ids_in_order_of_demand():
    allotted = allot_cpus([3, 5, 8, 9, 12], {"replay": 1, "learner": 2, "worker_0": 1})
    assert allotted == {"replay": (3,), "learner": (5, 8), "worker_0": (9,)}


def test_allot_cpus_with_too_few_shows_the_sum():
    demand = {"replay": 1, "learner": 2} | {f"worker_{k}": 2 for k in range(3)}
    with pytest.raises(ConfigError) as raised:
        allot_cpus([0, 1, 2, 6], demand)
    assert "replay 1 + learner 2 + 3 x worker 2 = 9 CPUs, but this job has 4: 0-2,6. " in str(
        raised.value
    )
    assert "SAC_NUM_COLLECT_WORKERS" in str(raised.value)


@pytest.mark.parametrize(
    ("ids", "text"), [([0], "0"), ([0, 1], "0-1"), ([8, 0, 2, 1, 7], "0-2,7-8"), ([4, 6], "4,6")]
)
def test_cpu_list_is_what_taskset_reads(ids, text):
    assert cpu_list(ids) == text
