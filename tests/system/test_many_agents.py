"""A run whose agents share a policy in parallel environments, to its end and its evaluation."""

import math
import pathlib
import subprocess
import sys

import pytest
from records.test_event_log import events
from system.tiny_run import PROJECT, TinyRun

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

PARAMS = f"""
    num_iter = 20
    log_period_itrs = 1
    eval_period_itrs = 10
    n_eval_episodes = 4
    envs_per_worker = 2
    log_info = ["position:max"]

    def env_ctor(self, *args, seed=None, worker_id=None, **kwargs):
        import sys

        sys.path.append("{pathlib.Path(__file__).parents[1]}")
        from parallel_fakes import ParallelWorld

        return ParallelWorld(num_agents=3, limit=8, comes=0.3)
"""


TAGS = {
    "worker_0": {"Environment/Cumulative Reward", "Environment/Episode Length", "Step",
                 "Is Training", "Policy/Extrinsic Reward"},
    "learner": {"Losses/Policy Loss", "Losses/Value Loss", "Losses/Q1 Loss", "Losses/Q2 Loss",
                "Policy/Entropy", "Policy/Entropy Coeff", "Policy/Extrinsic Value",
                "Policy/Extrinsic Value Estimate"},
}  # fmt: skip


def _check_tags_of_mlagents(run):
    for program, tags in TAGS.items():
        found = [value for _, *value in events(run.paths.train_summaries / program)]
        assert tags <= {tag for tag, _ in found}
        assert all(math.isfinite(value) for tag, value in found if tag in tags)


def test_agents_in_parallel_environments_train_to_the_end_and_are_evaluated(tmp_path):
    run = TinyRun(tmp_path, PARAMS)
    try:
        started = run.start(SAC_MLAGENTS_TAGS="1")
        assert run.await_end(started, timeout_secs=400) == 0
    finally:
        run.end()
    assert run.status("worker_0")["rejected_steps"] == 0
    assert run.status("worker_0")["env_failures"] == 0
    collected = run.episodes("collect", 0)
    assert {episode["length"] for episode in collected} <= set(range(1, 9))
    evaluated = run.episodes("eval", 0)
    assert [int(episode["iteration"]) for episode in evaluated] == [10] * 4 + [20] * 4
    _check_tags_of_mlagents(run)
    command = [sys.executable, "-m", "tfagents_system", "eval", str(run.paths.root), "--novideo"]
    done = subprocess.run(
        [*command, "--num_episodes", "4"], cwd=PROJECT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "mean position_max" in done.stdout
