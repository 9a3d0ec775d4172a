"""Real runs over the nodes of a real Ray: to the end of training, stopped, and over Ray's client."""

import json
import signal

import pytest
from ray_cluster.cluster import CPUS, ray_cluster
from ray_cluster.ray_run import CORE, RayRun
from system.tiny_run import STEPS_PER_ITER

pytestmark = [pytest.mark.multiprocess, pytest.mark.timeout(600)]

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS


def check_end(run, driver):
    """Asserts that the run ends by itself, with all it should have, and leaves nothing."""
    run.set_pace(0)
    assert run.await_end(driver, 180) == 0
    finished = json.loads(run.paths.finished.read_text())
    assert finished["train_step"] == run.generations()[0] == NUM_TRAIN_STEPS
    assert run.paths.policies.joinpath("greedy_policy").is_dir()
    run.check_nothing_is_left()
    known = run.cluster.ask()
    assert known == {"actors": {}, "groups": [], "free_cpus": len(run.cluster.nodes) * CPUS}


def test_a_run_on_two_nodes_trains_to_its_end(tmp_path):
    with ray_cluster(num_nodes=2) as cluster:
        run = RayRun(tmp_path, cluster)
        run.set_pace(0.1)
        driver = run.drive()
        run.await_train_step(1, 120)
        hosts = [run.host(program) for program in ("learner", "worker_0")]
        assert cluster.ask() == {
            "actors": dict(zip((CORE, "sac:tiny:rollout_0"), hosts, strict=True)),
            "groups": ["sac:tiny"],
            "free_cpus": 0,
        }
        assert sorted(hosts) == ["n1", "n2"] and run.host("replay") == hosts[0]
        check_end(run, driver)
        assert f"{CORE.rpartition(':')[2]} is on {hosts[0]}" in run.output


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

        check_end(run, run.drive())
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
        check_end(run, run.drive(on=cluster.login, SAC_RAY_ADDRESS=cluster.client_address))
