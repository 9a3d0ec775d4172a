"""A run whose agents act in a Unity build, which ends now and then."""

import os
import pathlib
import signal
import sys

import numpy as np
import psutil
import pytest
from faults.experience import stored_blocks
from faults.recovery import env_steps
from system.tiny_run import TinyRun

from tfagents_system.environments import unity_adapter
from tfagents_system.environments.closing import closed_at_end

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

STAND_IN = pathlib.Path(__file__).parents[1] / "environments" / "unity" / "stand_in.py"
NUM_AGENTS = 3
PARAMS = """
    num_iter = 1000000
    eval_period_itrs = 20
    n_episodes_in_buffer = 100000

    def env_ctor(self, *args, seed=None, worker_id=None, **kwargs):
        from tfagents_system.environments import unity_adapter

        return unity_adapter.load(
            "{build}", seed=seed, arguments=["--agents", "{agents}", "--die-after-secs", "15"]
        )
"""


@pytest.fixture
def build(tmp_path):
    path = tmp_path / "Ball.x86_64"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} --mark={tmp_path} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def run(tmp_path, build):
    made = TinyRun(tmp_path, PARAMS.format(build=build, agents=NUM_AGENTS))
    yield made
    made.end()


def builds(folder):
    """Returns the processes of builds of the run in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if f"--mark={folder}" in (process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_agents_train_in_builds_that_end_and_workers_that_are_killed(run, build):
    process = run.start()
    run.wait_for(lambda: env_steps(run, "worker_0") > 100, 180, "env steps")
    run.kill("sac_collect.py 0")
    before = env_steps(run, "worker_0")
    run.wait_for(lambda: env_steps(run, "worker_0") > before + 50, 180, "env steps of a new worker")
    run.wait_for(lambda: run.status("worker_0").get("env_failures", 0) > 0, 180, "a build's end")
    before = env_steps(run, "worker_0")
    run.wait_for(lambda: env_steps(run, "worker_0") > before + 100, 180, "env steps of a new build")
    assert "ended with exit code 3" in run.status("worker_0")["failure"]
    assert len(builds(run.folder)) <= 2  # for collection and evaluation of the living worker
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 143
    assert builds(run.folder) == []
    with closed_at_end(unity_adapter.load(str(build))) as environment:
        blocks = stored_blocks(run, environment)
    assert sum(len(block.reward) for block in blocks) > 150
    for block in blocks:
        before, after = (
            np.asarray(each["vector"]) for each in (block.observation, block.next_observation)
        )
        # A decision tilts the plate by 5 * 0.007 at most, and a ball of at most 3 a second moves by
        # less than 0.5: between two episodes, both jump.
        assert np.abs(after - before)[:, :2].max() < 5 * 0.007 + 1e-5
        assert np.abs(after - before)[:, [2, 4]].max() < 0.5
        has_fallen = np.abs(after[:, [2, 4]]).max(axis=1) > 3
        np.testing.assert_array_equal(block.discount, np.where(has_fallen, 0.0, 1.0))
        np.testing.assert_allclose(block.reward, np.where(has_fallen, -1.0, 0.1), atol=1e-6)
