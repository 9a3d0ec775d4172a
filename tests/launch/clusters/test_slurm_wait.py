"""Waiting for the jobs of a run, with commands in SLURM's place; tests/slurm has a real one."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from system.tiny_run import TinyRun

from tfagents_system.core.waiting import wait_until

WAIT = """
import sys
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.launch.clusters import slurm_wait
slurm_wait.POLL_SECS = 0.1
run_tool(slurm_wait.wait, ["run_script.sh"])
"""
# SLURM's answers: the jobs 101, 102 are in the queue until the file `ended` exists.
COMMANDS = {
    "sbatch": 'echo "$*" >>"$FOLDER/sbatch"; echo $((100 + $(wc -l <"$FOLDER/sbatch")))',
    "squeue": 'echo >>"$FOLDER/squeue"; if [ -e "$FOLDER/busy" ]; then echo busy >&2; exit 1; fi; '
    '[ -e "$FOLDER/ended" ] || echo RUNNING',
    "scancel": 'echo "$*" >>"$FOLDER/scancel"; touch "$FOLDER/ended"',
}


class FakeSlurm:
    """A run, and what was asked of SLURM for it."""

    def __init__(self, folder: pathlib.Path):
        self.run = TinyRun(folder)
        self._folder = folder
        for name, text in COMMANDS.items():
            (folder / name).write_text("")
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def start(self) -> subprocess.Popen[str]:
        """Starts waiting; returns when the run's jobs were looked for in the queue."""
        num_asked = self.asked("squeue")
        environ = {
            "SAC_EXP_NAME": "tiny", "SAC_PARAMS": "../params.py", "SAC_CONFIG": "../config.json",
            "SAC_NUM_COLLECT_WORKERS": "1", "SAC_PLACEMENT": "slurm", "FOLDER": str(self._folder),
            "PATH": f"{self._folder}/bin:{os.environ['PATH']}",
        }  # fmt: skip
        wait = subprocess.Popen(
            [sys.executable, "-c", WAIT], cwd=self.run.project, env=environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(
            lambda: self.asked("squeue") > num_asked or wait.poll() is not None, 60, "squeue"
        )
        assert wait.poll() is None, wait.communicate()
        return wait

    def asked(self, command: str) -> int:
        return (self._folder / command).read_text().count("\n")

    def is_busy(self, is_busy: bool) -> None:
        """Lets its controller answer nothing, or again; returns once it was asked."""
        if is_busy:
            (self._folder / "busy").touch()
        else:
            (self._folder / "busy").unlink()
        num_asked = self.asked("squeue")
        wait_until(lambda: self.asked("squeue") > num_asked + 1, 60, "squeue")

    def end_jobs(self) -> None:
        (self._folder / "ended").touch()


@pytest.fixture
def slurm(tmp_path):
    return FakeSlurm(tmp_path)


def test_a_finished_run_is_waited_for(slurm):
    wait = slurm.start()
    slurm.run.paths.finished.write_text("{}")
    slurm.end_jobs()
    printed, errors = wait.communicate(timeout=60)
    assert (wait.returncode, errors) == (0, "")
    assert "core       job 101" in printed


def test_a_controller_that_does_not_answer_for_a_while_changes_nothing(slurm):
    wait = slurm.start()
    slurm.is_busy(True)
    slurm.is_busy(False)
    assert wait.poll() is None
    slurm.run.paths.finished.write_text("{}")
    slurm.end_jobs()
    printed, errors = wait.communicate(timeout=60)
    assert (wait.returncode, errors) == (0, "")
    assert printed.count("squeue failed: busy Asking again every 0.1 s.") == 1


def test_a_stop_cancels_the_jobs_even_if_squeue_does_not_answer(slurm, tmp_path):
    wait = slurm.start()
    slurm.is_busy(True)
    wait.send_signal(signal.SIGTERM)
    _, errors = wait.communicate(timeout=60)
    assert (wait.returncode, errors) == (143, "")
    assert (tmp_path / "scancel").read_text() == "--quiet 101 102\n"


def test_jobs_that_end_before_the_run_is_finished_are_a_failure(slurm):
    wait = slurm.start()
    slurm.end_jobs()
    printed, errors = wait.communicate(timeout=60)
    assert (wait.returncode, errors) == (1, "")
    assert "logs/tiny is not finished: see logs/tiny/slurm." in printed


def test_a_run_in_the_queue_is_not_submitted_again_and_a_stop_cancels_it(slurm, tmp_path):
    first = slurm.start()
    first.kill()
    first.communicate(timeout=60)
    again = slurm.start()
    again.send_signal(signal.SIGTERM)
    _, errors = again.communicate(timeout=60)
    assert (again.returncode, errors) == (143, "")
    assert slurm.asked("sbatch") == 2
    assert (tmp_path / "scancel").read_text() == "--quiet 101 102\n"
