"""Real runs on a real SLURM that are preempted, and that need several times their time limit."""

import json

import pytest
from slurm.cluster import CPUS, slurm_cluster
from slurm.slurm_run import SlurmRun
from system.tiny_run import STEPS_PER_ITER

pytestmark = [pytest.mark.faults, pytest.mark.multiprocess, pytest.mark.timeout(1200)]

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS


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
