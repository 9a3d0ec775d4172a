"""The batch scripts on a real SLURM, with a stub in the place of the programs."""

import shutil

import pytest
from slurm.cluster import CPUS, PROJECT, Cluster, slurm_cluster

from tfagents_system.core.waiting import wait_until

# Writes what happens to it to a file, and ends by itself after it has been stopped once.
STUB = """#!/usr/bin/env bash
tape=$1${SLURM_ARRAY_TASK_ID-}.tape
trap 'sleep 0.5; echo saved >>"$tape"; exit 143' TERM
echo "start ${SLURM_RESTART_COUNT:-0}" >>"$tape"
until grep -qs saved "$tape"; do sleep 0.1; done
echo done >>"$tape"
"""


@pytest.fixture(scope="module")
def cluster():
    with slurm_cluster(num_nodes=4) as cluster:
        shutil.copytree(PROJECT / "slurm", cluster.project / "slurm")
        (cluster.project / "run_script.sh").write_text(STUB)
        (cluster.project / "run_script.sh").chmod(0o755)
        yield cluster


def submit(cluster: Cluster, name: str, *options: str) -> str:
    """Submits train.sbatch for a whole node; returns the job's id."""
    return cluster.ask("sbatch", "--parsable", f"--cpus-per-task={CPUS}", f"--output={name}.out",
                       *options, "slurm/train.sbatch", name)  # fmt: skip


def preempt(cluster: Cluster, job_id: str) -> None:
    """Has another job take the node of this one for a moment."""
    node = cluster.job(job_id)["NodeList"]
    cluster.ask("sbatch", "-p", "urgent", f"--cpus-per-task={CPUS}", "-w", node, "--wrap=true")


def tape(cluster: Cluster, name: str) -> list[str]:
    file = cluster.project / f"{name}.tape"
    return file.read_text().splitlines() if file.exists() else []


def await_start(cluster: Cluster, *names: str) -> None:
    wait_until(lambda: all(tape(cluster, name) for name in names), 30, f"the start of {names}")


STOPPED_ONCE = ["start 0", "saved", "start 1", "done"]


def test_jobs_save_and_go_on_at_the_time_limit_and_after_a_preemption(cluster):
    """All at once, because SLURM looks at time limits every 30 s only."""
    limited = submit(cluster, "limited", "--time=1", "--signal=B:TERM@59")
    preempted = submit(cluster, "preempted")
    array = submit(cluster, "graceful", "-p", "graceful", "--array=0-1")
    await_start(cluster, "limited", "preempted", "graceful0", "graceful1")
    # The last element of an array has the id of the whole array.
    assert cluster.job(f"{array}_1")["JobId"] == array
    preempt(cluster, preempted)
    preempt(cluster, f"{array}_1")
    for name, job in [("limited", limited), ("preempted", preempted), ("graceful1", f"{array}_1")]:
        job = cluster.await_state(job, "COMPLETED", timeout_secs=100)
        assert tape(cluster, name) == STOPPED_ONCE
        assert job["Restarts"] == "1"
    assert tape(cluster, "graceful0") == ["start 0"]
    cluster.ask("scancel", array)
    cluster.await_state(f"{array}_0", "CANCELLED")


def test_a_cancelled_job_saves_and_stays_away(cluster):
    job_id = submit(cluster, "cancelled")
    await_start(cluster, "cancelled")
    cluster.ask("scancel", job_id)
    wait_until(lambda: tape(cluster, "cancelled") == ["start 0", "saved"], 20, "the end of the job")
    wait_until(lambda: cluster.ask("squeue", "--noheader") == "", 20, "an empty queue")
    job = cluster.job(job_id)
    assert (job["JobState"], job["Restarts"]) == ("CANCELLED", "0")


def test_a_job_outside_of_the_project_says_where_to_submit_it(cluster):
    script = str(cluster.project / "slurm/train.sbatch")
    job_id = cluster.ask("sbatch", "--parsable", "--cpus-per-task=1", "--chdir=/tmp",
                         f"--output={cluster.project}/lost", script, "x.sh")  # fmt: skip
    assert cluster.await_state(job_id, "FAILED")["ExitCode"] == "78:0"
    assert "Submit in the project folder: sbatch" in (cluster.project / "lost").read_text()
