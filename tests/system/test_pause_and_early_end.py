"""A whole run that is paused, goes on, and ends early; its callbacks write down what happens."""

import json
import subprocess
import sys
import time

import pytest
from system.tiny_run import TinyRun

pytestmark = pytest.mark.system

MORE_PARAMS = """
    num_iter = 2000
    log_info = ("force:last",)
    stop_when = "return >= 0 for 2 evaluations"  # the return is 0

    def callbacks(self, program):
        return [Tape(self.env_config["folder"], program)]


class Tape:
    def __init__(self, folder, program):
        self._path = pathlib.Path(folder) / f"tape_{program}"

    def _note(self, event):
        with self._path.open("a") as tape:
            tape.write(f"{type(event).__name__} {getattr(event, 'end', event.train_step)}\\n")
        raise RuntimeError("the tape is full")

    on_start = on_evaluation = on_checkpoint = on_end = _note


def get_info(self):
    return {"force": 2.0 * self._num_steps}


TinyEnv.get_info = get_info
"""


@pytest.fixture
def run(tmp_path):
    run = TinyRun(tmp_path, MORE_PARAMS)
    yield run
    run.end()


def sac(run, command, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "tfagents_system", command, str(run.paths.root), *arguments],
        cwd=run.project, capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip


def steps_taken(run):
    """Returns env steps of collection, and train steps."""
    return sum(path.stat().st_size for path in run.folder.glob("life_*")), run.train_step()


def test_a_run_pauses_over_a_restart_and_ends_early_as_a_finished_one(run):
    run.set_pace(0.02)
    process = run.start(num_workers=2)
    run.await_train_step(2 * 20)
    assert "are paused, as every program has reported" in sac(run, "pause")
    before = steps_taken(run)
    pid = run.kill("sac_collect.py 1")
    run.wait_for(
        lambda: run.status("worker_1").get("pid") not in (None, pid)
        and run.status("worker_1")["phase"] == "paused", 60, "a new worker that pauses",
    )  # fmt: skip
    time.sleep(2)  # longer than any program holds back
    assert steps_taken(run) == before

    run.set_pace(0.002)
    sac(run, "resume")
    assert run.await_end(process, timeout_secs=150) == 0
    facts = json.loads(run.paths.finished.read_text())
    assert (
        f"Training is finished, after {facts['iteration']} of 2000 iterations, because return >= 0 "
        "for 2 evaluations (0, 0)." in run.output
    )
    assert 40 <= facts["iteration"] < 2000 and facts["num_iter"] == 2000
    assert run.generations()[0] == facts["train_step"]
    check_records(run, facts["train_step"])

    process = run.start(num_workers=2)
    assert run.await_end(process, timeout_secs=60) == 78
    assert f"it ended after {facts['iteration']} of 2000 iterations, because return" in run.output


def check_records(run, train_step):
    tape = {path.name: path.read_text().splitlines() for path in run.folder.glob("tape_*")}
    assert tape["tape_learner"][0] == "Event 0"
    assert tape["tape_learner"][-2:] == [f"CheckpointEvent {train_step}", "EndEvent finished"]
    assert tape["tape_worker_0"][-1] == tape["tape_worker_1"][-1] == "EndEvent finished"
    told = [line for lines in tape.values() for line in lines if line.startswith("Evaluation")]
    evaluated = {int(row["train_step"]) for k in (0, 1) for row in run.episodes("eval", k)}
    assert sorted(int(line.split()[1]) for line in told) == sorted(evaluated)
    assert max(evaluated) == train_step  # the last policy
    assert "CALLBACK FAILED" in run.status("learner")["failure"]
    for worker in (0, 1):
        path = run.paths.episodes / f"info_collect_{worker}.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        assert {(row[-2], row[-1]) for row in rows} == {("force_last", f"{2 * 10}")}
