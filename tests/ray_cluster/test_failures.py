"""Real runs on a real Ray whose actors, nodes and head die: who goes on, where, and how soon."""

import os
import signal
import time

import pytest
from faults.recovery import RECOVERY_SECS, env_steps, time_recovery
from ray_cluster.cluster import ray_cluster
from ray_cluster.ray_run import CORE, NUM_TRAIN_STEPS, RayRun

from tfagents_system.core.waiting import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(800)]


def start(tmp_path, cluster, **kwargs):
    """Starts a run that trains slowly; returns it once it has saved, with its driver."""
    run = RayRun(tmp_path, cluster)
    run.set_pace(0.1)
    driver = run.drive(**kwargs)
    run.wait_for(run.generations, 120, "the first generation")
    run.wait_for(lambda: env_steps(run, "worker_0"), 60, "env steps")
    return run, driver


def has_another(run, program, key):
    """Returns a condition: another process of the program has reported, and `key` has grown."""
    before = run.status(program)
    first = []

    def is_back():
        status = run.status(program)  # empty while its core starts anew
        if key not in status or all(status[k] == before[k] for k in ("host", "pid")):
            return False
        first.append(status[key])
        return first[-1] > first[0]

    return is_back


# Connections of a node without power or network stay open; Ray needs a minute to miss it.
@pytest.mark.faults
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_the_core_moves_to_another_node_and_its_workers_stay(tmp_path, ledger, how):
    with ray_cluster(num_nodes=3) as cluster:
        run, driver = start(tmp_path, cluster)
        lost, worker = run.host("learner"), run.status("worker_0")
        node = cluster.hosts[lost]
        time_recovery(
            run, ledger, f"the core's node is {how}", node.kill if how == "killed" else node.lose,
            has_another(run, "learner", "train_step"),
        )  # fmt: skip
        (restored,) = run.restored_steps()
        assert 0 < restored < NUM_TRAIN_STEPS
        hosts = {CORE: run.host("learner"), "sac:tiny:rollout_0": worker["host"]}
        assert cluster.ask()["actors"] == hosts and lost not in hosts.values()
        run.check_end(driver)
        same = ("host", "pid")
        assert [run.status("worker_0")[key] for key in same] == [worker[key] for key in same]
        assert f"is lost with its actor on {lost}; Ray places it again" in run.output


@pytest.mark.faults
@pytest.mark.parametrize(
    ("program", "key"),
    [("learner", "train_step"), ("worker_0", "env_steps")],
    ids=["core", "rollout"],
)
def test_a_killed_actor_comes_back_with_its_programs(tmp_path, ledger, program, key):
    with ray_cluster(num_nodes=2) as cluster:
        run, driver = start(tmp_path, cluster)
        host = cluster.hosts[run.host(program)]
        (actor,) = [pid for pid, title in host.processes().items() if "ShareActor" in title]
        earlier = set(run.share_processes())
        time_recovery(
            run, ledger, f"the actor of {program} is killed",
            lambda: os.kill(actor, signal.SIGKILL), has_another(run, program, key),
        )  # fmt: skip
        assert not earlier & set(host.processes())
        run.check_end(driver)


@pytest.mark.faults
def test_a_worker_moves_from_a_lost_node_while_training_goes_on(tmp_path, ledger):
    with ray_cluster(num_nodes=4) as cluster:
        run, driver = start(tmp_path, cluster, num_workers=2)
        node = cluster.hosts[run.host("worker_1")]
        learner = run.status("learner")
        run.set_pace(1)  # so that it has not ended before Ray misses the node
        time_recovery(run, ledger, "a worker's node is lost", node.lose,
                      has_another(run, "worker_1", "env_steps"))  # fmt: skip
        assert run.status("learner")["pid"] == learner["pid"]
        assert run.restored_steps() == []
        run.check_end(driver)


@pytest.mark.faults
def test_after_the_loss_of_the_head_the_same_command_goes_on(tmp_path, ledger):
    with ray_cluster(num_nodes=2) as cluster:
        run, driver = start(tmp_path, cluster, on=cluster.nodes[0])
        run.set_pace(0.5)
        began = time.monotonic()
        cluster.head.kill()
        assert run.await_end(driver, RECOVERY_SECS) not in (0, 143)
        print(f"the driver ended {time.monotonic() - began:.1f} s after its head")
        wait_until(lambda: not run.share_processes(), RECOVERY_SECS, "the end of all programs")
        print(f"all programs ended {time.monotonic() - began:.1f} s after the head")
        run.check_nothing_is_left()
        saved = run.generations()[0]

        for host in (cluster.head, *cluster.nodes):
            host.boot_again()
        cluster.start()
        run.set_pace(0.02)
        run.check_end(run.drive(on=cluster.nodes[0]))
        assert run.restored_steps() == [saved]
        ledger.add("Ray", "the head is lost", passed=True)


@pytest.mark.faults
def test_a_killed_driver_ends_the_run_which_is_saved(tmp_path, ledger):
    with ray_cluster(num_nodes=2) as cluster:
        run, driver = start(tmp_path, cluster)
        trained = run.train_step()
        run.signal(driver, signal.SIGKILL)
        run.await_end(driver, 30)
        wait_until(lambda: not run.share_processes(), RECOVERY_SECS, "the end of all programs")
        run.check_nothing_is_left()
        saved = run.generations()[0]
        assert saved >= trained
        run.check_end(run.drive())
        assert run.restored_steps() == [saved]
