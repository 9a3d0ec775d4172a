"""Real runs over the nodes of a real Ray: to the end, stopped, and over its client server."""

import os
import signal
import subprocess
import sys

import pytest
from mirror_fakes import in_tensorboard, mlflow_history
from ray_cluster.cluster import ray_cluster
from ray_cluster.ray_run import CORE, NUM_TRAIN_STEPS, WHOLE_NODES, RayRun

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


def test_a_run_on_two_nodes_trains_to_its_end(tmp_path):
    with ray_cluster(num_nodes=2) as cluster:
        run = RayRun(tmp_path, cluster)
        run.set_pace(0.1)
        driver = run.drive(SAC_MLFLOW="1")
        run.await_train_step(1, 120)
        hosts = [run.host(program) for program in ("learner", "worker_0")]
        assert cluster.ask() == {
            "actors": dict(zip((CORE, "sac:tiny:rollout_0"), hosts, strict=True)),
            "groups": ["sac:tiny"],
            "cpus": 4,
            "free_cpus": 0,
        }
        assert sorted(hosts) == ["n1", "n2"] and run.host("replay") == hosts[0]
        run.check_end(driver)
        assert f"{CORE.rpartition(':')[2]} is on {hosts[0]}" in run.output
        database = f"sqlite:///{run.paths.mirrors / 'mlflow' / 'mlflow.db'}"
        assert mlflow_history(database) == in_tensorboard(run.paths)


@pytest.mark.faults
@pytest.mark.parametrize("is_secure", [False, True], ids=["open", "token and TLS"])
def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path, is_secure):
    with ray_cluster(num_nodes=2, is_secure=is_secure) as cluster:
        run = RayRun(tmp_path, cluster)
        run.set_pace(0.1)
        driver = run.drive()
        run.wait_for(run.generations, 120, "the first generation")
        trained = run.train_step()
        run.signal(driver, signal.SIGINT)
        assert run.await_end(driver, 120) == 143
        saved = run.generations()[0]
        assert trained <= saved < NUM_TRAIN_STEPS
        run.check_nothing_is_left()
        assert cluster.ask()["actors"] == {}

        run.check_end(run.drive())
        assert run.restored_steps() == [saved]


@pytest.mark.faults
def test_without_the_token_a_cluster_that_asks_for_one_takes_no_run(tmp_path):
    with ray_cluster(num_nodes=1, is_secure=True) as cluster:
        run = RayRun(tmp_path, cluster)
        driver = run.drive(RAY_AUTH_TOKEN_PATH=str(tmp_path / "none"))
        assert run.await_end(driver, 120) == 78
        assert "does not take this run" in run.output and "Traceback" not in run.output
        assert not run.paths.root.exists()


@pytest.mark.faults
def test_a_driver_outside_the_cluster_runs_through_its_client_server(tmp_path):
    with ray_cluster(num_nodes=2) as cluster:
        run = RayRun(tmp_path, cluster)
        run.set_pace(0.02)
        run.check_end(run.drive(on=cluster.login, SAC_RAY_ADDRESS=cluster.client_address))


@pytest.mark.slow
def test_a_sweep_trains_its_trials_on_a_cluster(tmp_path):
    with ray_cluster(num_nodes=2) as cluster:
        run = RayRun(tmp_path, cluster, "\n    num_iter = 10\n    eval_period_itrs = 10\n")
        variables = {"SAC_PLACEMENT": "ray", "SAC_NUM_COLLECT_WORKERS": "1"} | WHOLE_NODES
        done = subprocess.run(
            [*cluster.head.enter(folder=run.project), sys.executable, "-m", "tfagents_system",
             "sweep", f"{tmp_path}/variables.sh", "--grid", "discount=0.9,0.99"],
            env=os.environ | variables | cluster.environ | {"PYTHONPATH": str(run.project)},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        table = (run.project / "logs/tiny_sweep/sweep.csv").read_text()
        assert (
            table.splitlines()[0]
            == "trial,discount,mean_return,interval_low,interval_high,seeds,state"
            and table.count("\n") == 3
        )
        for trial in (0, 1):
            ray_log = run.project / f"logs/tiny_trial_{trial}_seed_1/ray"
            assert len(list(ray_log.glob("*.log"))) == 2  # of two shares
        run.check_nothing_is_left()
