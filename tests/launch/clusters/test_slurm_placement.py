"""What SLURM is asked for, and submission to a real one as the user nobody; no job starts here."""

import os
import subprocess
import sys

import pytest
from slurm.cluster import Cluster, slurm_cluster
from system.tiny_run import TinyRun

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.clusters import slurm_placement
from tfagents_system.launch.clusters.demand import Demand
from tfagents_system.launch.clusters.slurm_placement import job_options

DEMAND = Demand(num_workers=10, workers_per_share=1, num_evaluators=0, reverb_cpus=1, train_cpus=2,
                worker_cpus=2)  # fmt: skip


def test_options_name_the_job_its_cpus_its_log_and_its_script():
    assert job_options("e", "evaluators", DEMAND) == [
        "--job-name=e.evaluators", "--cpus-per-task=2", "--output=logs/e/slurm/evaluators_%a.log",
        "slurm/workers.sbatch", "logs/e", "evaluators",
    ]  # fmt: skip


def test_without_slurm_nothing_is_left(tmp_path):
    run = TinyRun(tmp_path)
    environ = {"SAC_EXP_NAME": "tiny", "SAC_PARAMS": "../params.py",
               "SAC_CONFIG": "../config.json", "SAC_NUM_COLLECT_WORKERS": "3"}  # fmt: skip
    answer = subprocess.run(
        [sys.executable, "-m", "tfagents_system.launch.clusters.slurm_placement"],
        cwd=run.project, env=environ | {"PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode == 78
    assert "SAC_PLACEMENT is slurm, but there is no sbatch on PATH. Start it on a" in answer.stderr
    assert not run.paths.root.exists()


@pytest.mark.parametrize(
    ("has_scripts", "message"),
    [(False, "needs a checkout of the project: .* has no slurm/core.sbatch"),
     (True, "jobs look for logs/ in the folder of the project. Start it in ")],
    ids=["installed", "elsewhere"],
)  # fmt: skip
def test_only_a_checkout_submits_and_only_from_its_folder(
    tmp_path, monkeypatch, has_scripts, message
):
    if not has_scripts:
        monkeypatch.setattr(slurm_placement, "PROJECT", tmp_path)
    monkeypatch.chdir(tmp_path)
    environ = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json",
               "SAC_PLACEMENT": "slurm", "SAC_NUM_COLLECT_WORKERS": "3"}  # fmt: skip
    with pytest.raises(ConfigError, match=message):
        slurm_placement.submit(Settings.from_environ(environ), environ)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def cluster():
    with slurm_cluster(num_nodes=1) as cluster:
        cluster.ask("scontrol", "update", "partitionname=main", "state=down", user=0)
        yield cluster


@pytest.fixture(scope="module")
def run(cluster):
    run = TinyRun(cluster.project)
    cluster.give(run.folder)
    return run


def submit(cluster: Cluster, run: TinyRun, **environ: str):
    variables = {"SAC_PLACEMENT": "slurm", "SAC_NUM_COLLECT_WORKERS": "3", "SAC_TRAIN_CPUS": "1"}
    return cluster.run(str(run.project / "run_script.sh"), f"{run.folder}/variables.sh",
                       env=variables | environ)  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SBATCH_PARTITION": "nowhere"}, "invalid partition specified: nowhere"),
        ({"SAC_TRAIN_CPUS": "64"}, "CPU count per node can not be satisfied"),
        (
            {"SAC_TRAIN_CPUS": "64"},
            "No node of the partition has the 65 CPUs of the core (SAC_REVERB_CPUS = 1 + "
            "SAC_TRAIN_CPUS = 64): set lower numbers, or choose another partition",
        ),
        ({"SAC_GIN_BINDINGS": "TrainParams.num_itre = 3"}, "Did you mean num_iter"),
    ],
    ids=["partition", "CPUs", "CPUs of the core", "input"],
)
def test_what_slurm_or_we_refuse_is_shown_and_leaves_nothing(cluster, run, environ, message):
    answer = submit(cluster, run, **environ)
    assert answer.returncode == 78
    assert message in answer.stderr and "Traceback" not in answer.stderr
    assert not run.paths.root.exists() or not any(run.paths.root.iterdir())
    assert cluster.ask("squeue", "--noheader") == ""


def test_a_folder_without_permission_is_named(cluster, run):
    logs = run.project / "logs"
    os.chown(logs, 0, 0)
    answer = submit(cluster, run)
    cluster.give(logs)
    assert answer.returncode == 1
    assert "Permission denied" in answer.stderr and "Traceback" not in answer.stderr


def test_a_run_in_the_queue_is_not_submitted_again(cluster, run):
    answer = submit(cluster, run, SAC_EVAL_WORKERS="1")
    assert answer.returncode == 0, answer.stderr
    core, workers, evaluators = [
        line.split()[0] for line in (run.paths.slurm / "jobs").read_text().splitlines()
    ]
    assert cluster.job(core)["Command"] == f"{run.project}/slurm/core.sbatch"
    assert cluster.job(workers)["ArrayTaskId"] == "0-2"
    assert f"  core       job {core}, 2 CPUs\n" in answer.stdout
    assert f"  workers    jobs {workers}_0 to _2, 1 CPUs each\n" in answer.stdout
    assert f"  evaluators jobs {evaluators}_0 to _0, 1 CPUs each\n" in answer.stdout
    assert f"  stop       scancel {core} {workers} {evaluators}\n" in answer.stdout

    again = submit(cluster, run)
    assert again.returncode == 78
    assert f"submitted to SLURM already, as core job {core}" in again.stderr

    cluster.ask("scancel", core, workers, evaluators)
    resumed = submit(cluster, run)
    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming logs/tiny, seed 1." in resumed.stdout
