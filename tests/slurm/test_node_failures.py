"""Real runs on a real SLURM whose nodes die, or only seem to: who goes on, where, and how soon."""

import os
import signal
import time

import pytest
from faults.experience import account_of
from faults.recovery import ENDLESS, RECOVERY_SECS, env_steps, time_recovery
from slurm.cluster import slurm_cluster
from slurm.slurm_run import SlurmRun
from system.tiny_run import STEPS_PER_ITER

from tfagents_system.core.state.incarnation import CORE, Claims
from tfagents_system.core.waiting import wait_until
from tfagents_system.launch.experiment.lock import TAKEOVER_SECS
from tfagents_system.services.checkpoint_watch import PERIOD_SECS

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS


def has_collected_on_another_node(run, worker, node):
    """Returns a condition: the worker has reported from another node, and then collected."""
    first = []

    def has_collected():
        if run.host(worker) in ("", node):
            return False
        first.append(env_steps(run, worker))
        return first[-1] > first[0]

    return has_collected


def has_trained_on_another_node(run, node):
    """Returns a condition: the learner has reported from another node, and then trained."""
    first = []

    def has_trained():
        if run.host("learner") in ("", node) or run.status("learner")["phase"] != "training":
            return False
        first.append(run.train_step())
        return first[-1] > first[0]

    return has_trained


def stop_and_account(run, ledger):
    """Cancels the run once all that was lost can have been sent again; counts the env steps."""
    for _ in range(3):  # one that shows what is missing, one that has it, and one for good measure
        before = run.generations()[0]
        run.wait_for(lambda n=before: run.generations()[0] > n, 90, "one more generation")
        time.sleep(2 * PERIOD_SECS)  # workers look so often
    for kind in ("workers", "core"):  # so that the core saves what the workers send at their end
        queue = ("squeue", "--noheader", f"--jobs={run.jobs[kind]}")
        run.cluster.ask("scancel", run.jobs[kind])
        wait_until(lambda queue=queue: not run.cluster.ask(*queue), 90, f"the end of the {kind}")
    account = account_of(run)
    print(account)
    for what in ("lost", "duplicated"):
        number = getattr(account, what)
        ledger.add("SLURM", f"{number} of {account.stepped:,} env steps {what}", number == 0)
    assert (account.lost, account.duplicated) == (0, 0)


def restarts(run, *jobs):
    return [run.cluster.job(job)["Restarts"] for job in jobs]


@pytest.mark.parametrize(
    "is_told", [True, pytest.param(False, marks=pytest.mark.faults)], ids=["told", "missed"]
)
def test_the_core_moves_from_a_dead_node_and_its_workers_stay(ledger, is_told):
    """An administrator tells SLURM of the node's death, or SLURM misses the node."""
    with slurm_cluster(num_nodes=3) as cluster:
        run = SlurmRun(cluster)
        run.set_pace(0.06)
        run.submit(num_workers=1, SAC_PRIVATE_NETWORK="0")
        run.wait_for(run.generations, 180, "the first generation")
        node, worker = run.host("learner"), run.status("worker_0")

        def break_it():
            cluster.kill_node(node)
            if is_told:
                down = (f"nodename={node}", "state=down", "reason=killed")
                cluster.ask("scontrol", "update", *down, user=0)

        fault = f"the core's node is killed{', and SLURM is told' if is_told else ''}"
        time_recovery(run, ledger, fault, break_it, has_trained_on_another_node(run, node))
        run.set_pace(0)
        core, element = run.jobs["core"], f"{run.jobs['workers']}_0"
        for job in (core, element):
            assert cluster.await_state(job, "COMPLETED", "FAILED", timeout_secs=120)[
                "JobState"] == "COMPLETED", run.logs()  # fmt: skip
        assert restarts(run, core, element) == ["1", "0"]
        assert cluster.job(core)["NodeList"] == run.host("learner")
        (restored,) = run.restored_steps()
        assert 0 < restored < NUM_TRAIN_STEPS
        assert run.generations()[0] == NUM_TRAIN_STEPS
        same = ("host", "pid")
        assert [run.status("worker_0")[key] for key in same] == [worker[key] for key in same]


@pytest.mark.faults
def test_a_worker_moves_from_a_dead_node_while_training_goes_on(ledger):
    with slurm_cluster(num_nodes=4) as cluster:
        run = SlurmRun(cluster, ENDLESS)
        run.set_pace(0.05)
        run.submit(num_workers=2, SAC_PRIVATE_NETWORK="0")
        run.wait_for(run.generations, 180, "the first generation")
        run.wait_for(lambda: all(env_steps(run, f"worker_{k}") for k in range(2)), 60, "steps")
        node, trained = run.host("worker_1"), []

        def is_back():
            trained.append((time.monotonic(), run.train_step()))
            return has_collected()

        has_collected = has_collected_on_another_node(run, "worker_1", node)
        time_recovery(
            run, ledger, "a worker's node is killed", lambda: cluster.kill_node(node), is_back
        )
        assert longest_pause(trained) < 15
        elements = [f"{run.jobs['workers']}_{k}" for k in range(2)]
        assert restarts(run, run.jobs["core"], *elements) == ["0", "0", "1"]
        stop_and_account(run, ledger)


def longest_pause(trained):
    """Returns for how many seconds at most no train step was reported."""
    moments = [trained[0][0]]
    moments += [now for (_, before), (now, after) in zip(trained, trained[1:], strict=False)
                if after > before]  # fmt: skip
    moments.append(trained[-1][0])
    return max(b - a for a, b in zip(moments, moments[1:], strict=False))


@pytest.mark.faults
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hangs", [False, True], ids=["goes on", "hangs"])
def test_of_two_living_cores_the_later_one_wins(ledger, hangs):
    """SLURM takes the core's node for dead while its programs live, or only hang for a while."""
    with slurm_cluster(num_nodes=4) as cluster:
        run = SlurmRun(cluster, ENDLESS)
        run.set_pace(0.05)
        run.submit(num_workers=2, SAC_PRIVATE_NETWORK="0")
        run.wait_for(run.generations, 180, "the first generation")
        run.wait_for(lambda: all(env_steps(run, f"worker_{k}") for k in range(2)), 60, "steps")
        node = run.host("learner")
        earlier = [pid for pid, command in cluster.processes(node).items()
                   if hangs and ("sac_train" in command or "sac_replay" in command)]  # fmt: skip
        seen = []

        def break_it():
            cluster.freeze(node)
            for pid in earlier:
                os.kill(pid, signal.SIGSTOP)

        def has_two_cores():
            later = set(cluster.nodes) - {node, run.host("worker_0"), run.host("worker_1")}
            return cluster.processes(node) and any(cluster.processes(n) for n in later)

        def is_back():
            seen.append(seen[-1:] == [True] or bool(has_two_cores()))
            return has_trained()

        has_trained = has_trained_on_another_node(run, node)
        fault = f"the core's slurmd freezes, its programs {'hang' if hangs else 'go on'}"
        limit_secs = RECOVERY_SECS + hangs * TAKEOVER_SECS  # of which it waits for the lock
        time_recovery(run, ledger, fault, break_it, is_back, limit_secs)
        assert seen[-1], "there never were two cores"
        if hangs:
            assert cluster.processes(node)
            saved = run.generations()[0]
            run.wait_for(lambda: run.generations()[0] > saved, 90, "a generation of the later one")
            for pid in earlier:
                os.kill(pid, signal.SIGCONT)
        run.wait_for(lambda: not cluster.processes(node), 60, "the end of the earlier core")
        taken_over = "a later start of the run has taken over; this one has ended."
        assert taken_over in (run.paths.slurm / "core.log").read_text()
        core = cluster.job(run.jobs["core"])
        assert (core["JobState"], core["Restarts"]) == ("RUNNING", "1"), core
        claims = Claims(run.paths.incarnations)
        assert claims.owner(claims.newest(CORE))["host"] == run.host("learner") != node
        stop_and_account(run, ledger)
        assert cluster.processes() == {}
