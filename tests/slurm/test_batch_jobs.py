"""The batch scripts on a real SLURM, with a stub in the place of the programs."""

import shutil

import pytest
from slurm.cluster import CPUS, PROJECT, Cluster, slurm_cluster

from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.slurm

# Stands for run_script.sh in train.sbatch. Writes what happens to it to a file, and ends by itself
# after it has been stopped once. An array's cannot save: it is put into the queue as well.
STUB = """#!/usr/bin/env bash
tape=$1${SLURM_ARRAY_TASK_ID-}.tape
[[ $tape == graceful* ]] && code=74 || code=143
trap 'sleep 0.5; echo saved >>"$tape"; exit "$code"' TERM
echo "start ${SLURM_RESTART_COUNT:-0}" >>"$tape"
until grep -qs saved "$tape"; do sleep 0.1; done
echo done >>"$tape"
"""

# Stands for python in the other scripts: a core reports that it lives, others write how they
# were started; both wait to be stopped.
PYTHON = """#!/usr/bin/env bash
trap 'exit 143' TERM
shift 2 # -m MODULE
[[ $1 == core ]] || echo "$* ${SLURM_ARRAY_TASK_ID-alone}" >>logs/e/tape
while true; do
  [[ $1 != core ]] || touch logs/e/status/learner.json
  sleep 0.2
done
"""
ENVIRONMENT = """export PATH=$PWD/stub:$PATH
export SAC_NUM_COLLECT_WORKERS=5 SAC_WORKERS_PER_SHARE=2
"""


@pytest.fixture(scope="module")
def cluster():
    with slurm_cluster(num_nodes=4) as cluster:
        shutil.copytree(PROJECT / "slurm", cluster.project / "slurm")
        workers = cluster.project / "slurm/workers.sbatch"
        faster = workers.read_text().replace("LOOK_SECS=30", "LOOK_SECS=1")
        workers.write_text(faster.replace("PATIENCE_SECS=300", "PATIENCE_SECS=3"))
        for folder in ("stub", "logs/e/status", "logs/e/slurm"):
            (cluster.project / folder).mkdir(parents=True)
        for name, stub in [("run_script.sh", STUB), ("stub/python", PYTHON)]:
            (cluster.project / name).write_text(stub)
            (cluster.project / name).chmod(0o755)
        (cluster.project / "logs/e/slurm/environment.sh").write_text(ENVIRONMENT)
        cluster.give(cluster.project)
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
    wait_until(lambda: all(tape(cluster, name) for name in names), 60, f"the start of {names}")


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
    wait_until(lambda: tape(cluster, "cancelled") == ["start 0", "saved"], 60, "the end of the job")
    cluster.await_empty_queue()
    job = cluster.job(job_id)
    assert (job["JobState"], job["Restarts"]) == ("CANCELLED", "0")


def test_a_job_outside_of_the_project_says_where_to_submit_it(cluster):
    script = str(cluster.project / "slurm/train.sbatch")
    job_id = cluster.ask("sbatch", "--parsable", "--cpus-per-task=1", "--chdir=/tmp",
                         f"--output={cluster.project}/lost", script, "x.sh")  # fmt: skip
    assert cluster.await_state(job_id, "FAILED")["ExitCode"] == "78:0"
    assert "Submit in the project folder: sbatch" in (cluster.project / "lost").read_text()


def start_core(cluster: Cluster) -> str:
    """Returns the id of a core job that reports, on a cluster without other jobs."""
    cluster.ask("scancel", "--user=nobody")  # what a test that failed has left
    cluster.await_empty_queue()
    tape = cluster.project / "logs/e/tape"
    tape.unlink(missing_ok=True)
    core = cluster.ask("sbatch", "--parsable", f"--cpus-per-task={CPUS}", "--output=core.out",
                       "slurm/core.sbatch", "logs/e")  # fmt: skip
    (cluster.project / "logs/e/slurm/jobs").write_text(f"{core} core\n")
    cluster.await_state(core, "RUNNING")
    return core


def start_shares(cluster: Cluster, elements: str, num_shares: int, *kind: str) -> str:
    """Returns the id of an array whose elements have all begun."""
    array = cluster.ask("sbatch", "--parsable", f"--array={elements}", "--output=workers_%a.out",
                        "slurm/workers.sbatch", "logs/e", *kind)  # fmt: skip
    wait_until(lambda: len(shares(cluster)) >= num_shares, 60, f"{num_shares} shares")
    return array


def shares(cluster: Cluster) -> list[str]:
    """Returns how shares without a core were started, and of which array task they are aware."""
    tape = cluster.project / "logs/e/tape"
    return sorted(tape.read_text().splitlines()) if tape.exists() else []


def test_elements_of_the_array_divide_the_workers_and_end_with_the_core_job(cluster):
    core = start_core(cluster)
    workers = start_shares(cluster, "0-3", 4)
    evaluators = start_shares(cluster, "1", 5, "evaluators")
    assert shares(cluster) == [
        "evaluators 1 1 alone", "workers 0 2 alone", "workers 2 2 alone",
        "workers 4 1 alone",  # five in all
        "workers 6 2 alone",  # added later
    ]  # fmt: skip
    cluster.ask("scancel", core)
    cluster.await_empty_queue()
    for job in (*(f"{workers}_{element}" for element in range(4)), f"{evaluators}_1"):
        assert cluster.job(job)["Restarts"] == "0"
    assert f"core job {core} has ended" in (cluster.project / "workers_0.out").read_text()


def test_workers_make_room_for_a_core_that_waits(cluster):
    core = start_core(cluster)
    workers = start_shares(cluster, "0", 1)
    cluster.ask("scontrol", "requeuehold", core)  # as if its node had died and there were no other
    wait_until(lambda: cluster.job(f"{workers}_0")["Restarts"] == "1", 60, "the worker's requeue")
    cluster.ask("scontrol", "release", core)
    cluster.await_state(core, "RUNNING")
    wait_until(lambda: shares(cluster) == ["workers 0 2 alone"] * 2, 60, "the worker's return")
    cluster.ask("scancel", core, workers)
