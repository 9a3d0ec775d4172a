"""The batch scripts' common part, with commands in SLURM's place; tests/slurm has a real one."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from tfagents_system.core.waiting import wait_until

PROJECT = pathlib.Path(__file__).parents[2]
JOB = PROJECT / "slurm/job.sh"
BATCH = f"""
source {JOB}
check() {{ :; }}
run check bash -c 'trap "exit 143" TERM; touch "$FOLDER/started"; while true; do sleep 0.1; done'
"""
# The command fails the first time; `squeue` answers otherwise.
COMMAND = """#!/bin/sh
echo "$*" >>"$FOLDER/{name}"
[ "$FAILS" = {name} ] && [ $(wc -l <"$FOLDER/{name}") = 1 ] && exit 1
[ {name} = scontrol ] || echo "$STATE n1"
"""


@pytest.mark.parametrize(
    ("fails", "state", "asked"),
    [
        ("squeue", "RUNNING", ["requeue 7"]),
        ("scontrol", "RUNNING", ["requeue 7", "requeue 7"]),
        ("", "COMPLETING", []),  # cancelled
    ],
)
def test_a_job_near_its_time_limit_asks_until_it_is_answered(tmp_path, fails, state, asked):
    for name in ("squeue", "scontrol"):
        (tmp_path / name).touch()
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(COMMAND.format(name=name))
        command.chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "FOLDER": str(tmp_path), "FAILS": fails,
        "STATE": state, "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1",
    }  # fmt: skip
    batch = subprocess.Popen(["bash", "-c", BATCH], env=environ, stdout=subprocess.PIPE)
    wait_until((tmp_path / "started").exists, 60, "the program")
    batch.send_signal(signal.SIGTERM)
    batch.communicate(timeout=60)
    assert batch.returncode == 143
    assert (tmp_path / "scontrol").read_text().splitlines() == asked


def test_a_job_trains_on_its_node_whatever_the_variables_file_says(tmp_path):
    for name in ("slurm/job.sh", "slurm/train.sbatch", "run_script.sh", "train_script.sh",
                 "tfagents_system/launch/local/variables.sh"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    (tmp_path / "v.sh").write_text("SAC_EXP_NAME=arm\nSAC_PLACEMENT=slurm\n")
    for name, body in (
        ("setup.sh", f"echo {tmp_path}"),
        ("python", 'echo "$SAC_EXP_NAME trains, placement $SAC_PLACEMENT"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}
    job = subprocess.run(
        ["bash", "slurm/train.sbatch", "v.sh"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (job.returncode, job.stderr) == (0, "")
    assert job.stdout.splitlines()[-1] == "arm trains, placement local"
