"""Workers come and go while a run goes on, with an evaluator beside them; real programs."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from faults.experience import account_of
from faults.recovery import ENDLESS
from system.tiny_run import HORIZON, TinyRun

from tfagents_system.core.errors import EXIT_STOPPED, EXIT_SUPERSEDED
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.services.checkpoint_watch import PERIOD_SECS
from tfagents_system.services.journal import streams_with_journals

pytestmark = pytest.mark.system

NUM_ITER, NUM_EVAL_EPISODES = 60, 2  # of tiny_run.PARAMS


class Joiner:
    """A worker that the launcher does not know of, as a late job of a cluster."""

    def __init__(self, run, worker_id):
        self._run, self._worker_id = run, worker_id
        command = [
            sys.executable, "tfagents_system/sac_collect.py", f"--exp_dir={run.paths.root}",
            f"--replay_address=localhost:{run.port()}", "--noevaluates",
        ]  # fmt: skip
        environ = os.environ | {"SLURM_PROCID": str(worker_id), "PYTHONPATH": str(run.project)}
        self._output = run.folder / f"joiner_{worker_id}_{time.monotonic_ns()}.txt"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                command, cwd=run.project, env=environ, stdout=output, stderr=output
            )

    def await_steps(self):
        """Waits until this process, and no other of the same number, has collected something."""

        def has_collected():
            report = self._run.status(f"worker_{self._worker_id}")
            first = self._first_steps.setdefault(report.get("pid"), report.get("env_steps"))
            return report.get("pid") == self.process.pid and report["env_steps"] > first

        self._first_steps = {}
        self._run.wait_for(has_collected, 60, "the joiner's steps")

    def await_end(self):
        try:
            return self.process.wait(timeout=60)
        finally:
            print(self.output())

    def output(self):
        return self._output.read_text()

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
        run.set_pace(0.3)  # slow: it must not end before the joiners have come
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


def test_of_two_living_workers_with_one_number_the_older_ends_and_changes_nothing(tmp_path):
    run, joiners = TinyRun(tmp_path, ENDLESS), []

    def join():
        joiners.append(Joiner(run, 5))
        joiners[-1].await_steps()
        return joiners[-1]

    def streams():
        return {s for s in streams_with_journals(run.paths.journals) if s.worker_id == 5}

    try:
        run.set_pace(0.02)
        process = run.start(num_workers=1, SAC_PRIVATE_NETWORK="0")
        run.await_train_step(1)
        first = join()
        (old,) = streams()
        first.process.send_signal(signal.SIGSTOP)  # as on a host that hangs
        second = join()
        run.wait_for(lambda: old not in streams(), 60, "the journal to be taken over")
        (new,) = streams()
        episodes = (run.paths.episodes / "collect_5.csv").read_bytes()
        first.process.send_signal(signal.SIGCONT)
        assert first.await_end() == EXIT_SUPERSEDED
        assert f"(number {new.number}, process {second.process.pid})" in first.output()
        second.await_steps()
        assert (run.paths.episodes / "collect_5.csv").read_bytes().startswith(episodes)
        second.process.terminate()
        assert second.await_end() == EXIT_STOPPED
        for _ in range(2):  # what is missing is sent after the first
            before = run.generations()[0]
            run.wait_for(lambda n=before: run.generations()[0] > n, 60, "one more generation")
            time.sleep(2 * PERIOD_SECS)
        process.terminate()
        assert run.await_end(process, timeout_secs=60) == EXIT_STOPPED
        account = account_of(run)
        assert (account.lost, account.duplicated) == (0, 0), account
    finally:
        for joiner in joiners:
            joiner.end()
        run.end()


def evaluations(run, name):
    with (run.paths.episodes / f"{name}.csv").open(newline="") as file:
        return [int(row["iteration"]) for row in csv.DictReader(file)]
