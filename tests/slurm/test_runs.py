"""Real runs over the nodes of a real SLURM, as the user nobody: to the end of training."""

import json
import sys

import pytest
from mirror_fakes import in_tensorboard, mlflow_history
from slurm.cluster import CPUS, slurm_cluster
from slurm.slurm_run import SlurmRun
from system.tiny_run import STEPS_PER_ITER

from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.state.paths import ExperimentPaths

pytestmark = pytest.mark.slurm

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS


def test_a_cancelled_run_over_several_hosts_resumes_and_trains_to_its_end():
    with slurm_cluster(num_nodes=4) as cluster:
        run = SlurmRun(cluster)
        run.set_pace(0.1)
        asked_for = {"SAC_PRIVATE_NETWORK": "0", "SAC_MLFLOW": "1"}
        run.submit(num_workers=2, **asked_for)
        run.wait_for(run.generations, 180, "the first generation")
        train_step = run.train_step()
        cancel(run)
        saved = run.generations()[0]
        assert saved >= train_step

        run.set_pace(0)
        assert "Resuming logs/tiny, seed 1." in run.submit(num_workers=2, **asked_for)
        for job in (run.jobs["core"], *(f"{run.jobs['workers']}_{k}" for k in range(2))):
            ended = cluster.await_state(job, "COMPLETED", "FAILED", timeout_secs=120)
            assert (ended["JobState"], ended["Restarts"]) == ("COMPLETED", "0"), run.logs()
        assert run.restored_steps() == [saved]
        assert run.generations()[0] == NUM_TRAIN_STEPS
        assert len({run.host(p) for p in ("learner", "worker_0", "worker_1")}) == 3
        assert run.paths.policies.joinpath("greedy_policy").is_dir()
        database = f"sqlite:///{run.paths.mirrors / 'mlflow' / 'mlflow.db'}"
        assert mlflow_history(database) == in_tensorboard(run.paths, num_workers=2)
        run.check_nothing_is_left()


def cancel(run):
    """Cancels all jobs, of which nothing is left."""
    running = " ".join(run.cluster.processes().values())
    for program in ("supervise", "stunnel", "launch.link.relay", "sac_train", "sac_collect",
                    "tfagents_system mirror"):  # fmt: skip
        assert program in running, running
    run.cluster.ask("scancel", *run.jobs.values())
    run.cluster.await_empty_queue()
    run.check_nothing_is_left()


def test_an_array_of_experiments_and_a_job_with_too_few_cpus():
    with slurm_cluster(num_nodes=3) as cluster:
        run = SlurmRun(cluster, "\n    num_iter = 10\n    eval_period_itrs = 0\n")
        too_few = run.submit_one_node("--cpus-per-task=1", "--array=7", SAC_TRAIN_CPUS="2")
        array = run.submit_one_node(f"--cpus-per-task={CPUS}", "--array=0-1")
        assert cluster.await_state(f"{too_few}_7", "FAILED")["ExitCode"] == "78:0"
        shown = (run.folder / "node_7").read_text()
        assert "replay 1 + learner 2 + worker 1 = 4 CPUs, but this job has 1" in shown
        for task in range(2):
            cluster.await_state(f"{array}_{task}", "COMPLETED", timeout_secs=90)
            paths = ExperimentPaths(run.project / "logs" / f"tiny_task_{task}")
            assert paths.finished.exists()
            seed = derive_seed(1, SeedPurpose.TASK, task)  # SAC_SEED is 1
            assert json.loads(paths.provenance.read_text())["seed"] == seed


def sweep_logs(run):
    files = sorted((run.project / "logs").glob("tiny_*/*.log"))
    return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in files)


@pytest.mark.slow
def test_a_sweep_trains_its_trials_on_a_real_cluster_at_the_same_time():
    with slurm_cluster(num_nodes=4) as cluster:
        run = SlurmRun(cluster, "\n    num_iter = 10\n    eval_period_itrs = 10\n")
        answer = cluster.run(
            "env", f"--chdir={run.project}",
            sys.executable, "-m", "tfagents_system", "sweep", f"{run.folder}/variables.sh",
            "--grid", "discount=0.9,0.99", "--parallel=2",
            env={"SAC_PLACEMENT": "slurm", "SAC_NUM_COLLECT_WORKERS": "1", "SAC_TRAIN_CPUS": "1",
                 "SAC_PRIVATE_NETWORK": "0", "PYTHONPATH": str(run.project),
                 "MPLCONFIGDIR": str(run.folder)}, timeout_secs=240,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr + sweep_logs(run)
        jobs = []
        for trial in (0, 1):
            paths = ExperimentPaths(run.project / "logs" / f"tiny_trial_{trial}_seed_1")
            assert paths.finished.exists()
            jobs.append((paths.slurm / "jobs").read_text().split()[0])
        begins = [cluster.job(job)["StartTime"] for job in jobs]
        ends = [cluster.job(job)["EndTime"] for job in jobs]
        assert max(begins) < min(ends)
        table = (run.project / "logs/tiny_sweep/sweep.csv").read_text()
        assert (
            table.splitlines()[0]
            == "trial,discount,mean_return,interval_low,interval_high,seeds,state"
            and table.count("\n") == 3
        )
