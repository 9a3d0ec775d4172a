"""Which actors a run on Ray has, and what keeps it from starting; no Ray runs here."""

import subprocess
import sys

import pytest
from system.tiny_run import TinyRun

from tfagents_system.launch.clusters.demand import Demand
from tfagents_system.launch.clusters.ray_plan import PlannedActor, actors, share_environ, shortage

DEMAND = Demand(num_workers=10, workers_per_share=4, num_evaluators=2, reverb_cpus=1, train_cpus=3,
                worker_cpus=2)  # fmt: skip


def test_actors_are_named_by_their_roles_and_ask_for_the_cpus_of_their_programs():
    assert actors(DEMAND) == [
        PlannedActor("replay_buffer+parameter_server+learner", ("core",), 1 + 3),
        PlannedActor("rollout_0-3", ("workers", "0", "4"), 4 * 2),
        PlannedActor("rollout_4-7", ("workers", "4", "4"), 4 * 2),
        PlannedActor("rollout_8-9", ("workers", "8", "2"), 2 * 2),
        PlannedActor("test_0", ("evaluators", "0", "1"), 2),
        PlannedActor("test_1", ("evaluators", "1", "1"), 2),
    ]


def test_shares_have_the_variables_of_the_driver_but_for_those_of_its_host_and_cluster():
    driver = {
        "PATH": "/venv/bin", "MUJOCO_GL": "egl", "SAC_TRAIN_CPUS": "auto", "SAC_EXP_NAME": "e",
        "RAY_AUTH_TOKEN": "secret", "SLURM_ARRAY_TASK_ID": "3", "HOSTNAME": "login",
    }  # fmt: skip
    assert share_environ(driver, DEMAND, "e_task_3") == {
        "PATH": "/venv/bin", "MUJOCO_GL": "egl", "SAC_EXP_NAME": "e_task_3", **DEMAND.environ(),
    }  # fmt: skip
    assert DEMAND.environ()["SAC_TRAIN_CPUS"] == "3"


def test_a_cluster_that_is_too_small_even_when_idle_is_told_from_a_busy_one():
    core, rollout = PlannedActor("core", (), 4), PlannedActor("rollout_0", (), 1)
    assert shortage([core, rollout], [4, 1]) is None
    lack = "core 4 + rollout_0 1 = 5 CPUs, but Ray's nodes have 3, 3"
    assert shortage([core, rollout], [3, 3]) == lack
    assert shortage([core], []) == "core 4 = 4 CPUs, but Ray's nodes have none"


MODULE = "tfagents_system.launch.clusters.ray_placement"
RUN = f"import runpy; runpy.run_module('{MODULE}', run_name='__main__')"
WITHOUT_RAY = f"import sys; sys.modules['ray'] = None; {RUN}"


@pytest.mark.parametrize(
    ("code", "environ", "message"),
    [
        (
            RUN,
            {"SAC_NUM_COLLECT_WORKERS": "auto"},
            "set a number, which is then requested",
        ),
        (
            RUN,
            {"SAC_RAY_ADDRESS": "127.0.0.1:1"},
            "is 127.0.0.1:1, where nothing answers",
        ),
        (RUN, {"SAC_RAY_ADDRESS": "ray://127.0.0.1:1"}, "where nothing answers"),
        (RUN, {"RAY_TMPDIR": "/nowhere"}, "is auto, and the Ray cluster there does not"),
        (WITHOUT_RAY, {}, "the package ray is missing. Call ./setup.sh --with ray; or"),
    ],
    ids=["number of workers", "port", "client port", "no Ray here", "no package"],
)
def test_without_a_cluster_nothing_is_left(tmp_path, code, environ, message):
    run = TinyRun(tmp_path)
    variables = {"SAC_EXP_NAME": "tiny", "SAC_PARAMS": "../params.py", "SAC_PLACEMENT": "ray",
                 "SAC_CONFIG": "../config.json", "SAC_NUM_COLLECT_WORKERS": "1"}  # fmt: skip
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=run.project, capture_output=True, text=True, timeout=60,
        env=variables | {"PATH": "/usr/bin:/bin"} | environ,
    )  # fmt: skip
    assert answer.returncode == 78
    assert message in answer.stderr and "Traceback" not in answer.stderr
    assert not run.paths.root.exists()
