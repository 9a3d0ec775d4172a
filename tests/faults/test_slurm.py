"""Real runs on a real SLURM that are preempted, and that need several times their time limit."""

import json

import pytest
from slurm.cluster import CPUS, slurm_cluster
from slurm.slurm_run import SlurmRun
from system.tiny_run import STEPS_PER_ITER

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS
LONG_NUM_ITER = 300


def test_a_preempted_run_on_one_node_goes_on_where_it_saved():
    with slurm_cluster(num_nodes=1) as cluster:
        run = SlurmRun(cluster)
        run.set_pace(0.1)
        job = run.submit_one_node(f"--cpus-per-task={CPUS}")
        for num_restarts in range(3):
            saved = max(run.generations(), default=0)
            run.await_train_step(saved + STEPS_PER_ITER)
            urgent = cluster.ask("sbatch", "--parsable", "-p", "urgent", f"-c{CPUS}", "--wrap=true")
            cluster.await_state(urgent, "COMPLETED")
            run.check_nothing_is_left()
            assert run.generations()[0] >= saved + STEPS_PER_ITER
            assert cluster.job(job)["Restarts"] == str(num_restarts + 1)
            cluster.await_state(job, "RUNNING")
            run.wait_for(lambda n=num_restarts + 1: len(run.restored_steps()) == n, 60, "a restore")
            assert run.restored_steps()[-1] == run.generations()[0]
        run.set_pace(0)
        cluster.await_state(job, "COMPLETED", timeout_secs=90)
        assert json.loads(run.paths.finished.read_text())["train_step"] == NUM_TRAIN_STEPS


def test_a_run_that_needs_several_times_its_time_limit_trains_to_its_end():
    with slurm_cluster(num_nodes=1) as cluster:
        run = SlurmRun(cluster, f"\n    num_iter = {LONG_NUM_ITER}\n")
        run.set_pace(0.1)
        # The least that SLURM allows. The signal comes half a minute too early: on a busy machine a
        # life may be over before it has trained.
        limits = ("--time=1", "--signal=B:TERM@1")
        job = run.submit_one_node(*limits, f"--cpus-per-task={CPUS}")
        run.await_train_step(1)
        run.wait_for(lambda: len(run.restored_steps()) >= 3, 400, "three time limits")
        first, *_, last = run.restored_steps()
        assert 0 < first < last
        run.set_pace(0)
        ended = cluster.await_state(job, "COMPLETED", "FAILED", "TIMEOUT", timeout_secs=400)
        assert ended["JobState"] == "COMPLETED" and int(ended["Restarts"]) >= 3
        assert run.restored_steps() == sorted(run.restored_steps())
        trained = json.loads(run.paths.finished.read_text())["train_step"]
        assert trained == LONG_NUM_ITER * STEPS_PER_ITER
        run.check_nothing_is_left()
