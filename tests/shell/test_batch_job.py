"""The batch scripts' common part, with commands in SLURM's place; tests/slurm has a real one."""

import os
import pathlib
import signal
import subprocess

import pytest

from tfagents_system.core.waiting import wait_until

JOB = pathlib.Path(__file__).parents[2] / "slurm/job.sh"
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
