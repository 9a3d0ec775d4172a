"""Workers come and go while a run goes on, with an evaluator beside them; real programs."""

import csv
import json
import os
import signal
import subprocess
import sys

import pytest
from system.tiny_run import HORIZON, TinyRun

from tfagents_system.core.best_policies import best_policy

pytestmark = pytest.mark.multiprocess

NUM_ITER, NUM_EVAL_EPISODES = 60, 2  # of tiny_run.PARAMS


class Joiner:
    """A worker that the launcher does not know of, as a late job of a cluster."""

    def __init__(self, run, worker_id):
        command = [
            sys.executable, "tfagents_system/sac_collect.py", f"--exp_dir={run.paths.root}",
            f"--replay_address=localhost:{run.port()}", "--noevaluates",
        ]  # fmt: skip
        environ = os.environ | {"SLURM_PROCID": str(worker_id), "PYTHONPATH": str(run.project)}
        self._output = run.folder / f"joiner_{worker_id}.txt"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                command, cwd=run.project, env=environ, stdout=output, stderr=output
            )

    def await_end(self):
        try:
            return self.process.wait(timeout=60)
        finally:
            print(self._output.read_text())

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)


def test_workers_join_vanish_and_end_with_the_run_and_evaluators_evaluate(tmp_path):
    run, joiners = TinyRun(tmp_path), []

    def join(worker_id):
        joiners.append(Joiner(run, worker_id))
        return joiners[-1]

    def env_steps(worker_id):
        return run.status(f"worker_{worker_id}").get("env_steps", 0)

    try:
        run.set_pace(0.05)
        process = run.start(num_workers=1, SAC_EVAL_WORKERS="1", SAC_PRIVATE_NETWORK="0")
        run.await_train_step(1)
        vanishing, staying = join(5), join(900)
        run.wait_for(lambda: min(env_steps(5), env_steps(900)) > HORIZON, 60, "the joiners' steps")
        vanishing.process.send_signal(signal.SIGKILL)
        reached = run.train_step()
        run.await_train_step(reached + HORIZON)  # nobody waits for it
        run.set_pace(0)
        assert run.await_end(process, timeout_secs=90) == 0
        assert staying.await_end() == 0
        assert run.status("worker_900")["phase"] == "finished"
        assert join(901).await_end() == 0  # after the end
        assert run.status("worker_901") == {}

        evaluated = evaluations(run, "eval_evaluator_0")
        assert evaluated.count(NUM_ITER) == NUM_EVAL_EPISODES
        assert [evaluated.count(i) for i in set(evaluated)] == (
            [NUM_EVAL_EPISODES] * len(set(evaluated))
        )
        assert evaluations(run, "eval_0") == []
        best = best_policy(run.paths)
        facts = json.loads((best.folder / "best.json").read_text())
        assert facts["num_episodes"] == NUM_EVAL_EPISODES and facts["iteration"] in evaluated
    finally:
        for joiner in joiners:
            joiner.end()
        run.end()


def evaluations(run, name):
    with (run.paths.episodes / f"{name}.csv").open(newline="") as file:
        return [int(row["iteration"]) for row in csv.DictReader(file)]
