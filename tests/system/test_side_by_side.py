"""Env steps of workers with several environments, after programs were killed."""

import os
import signal

import pytest
from faults.experience import BURST, LAYOUT, lives_of, stored_steps
from faults.recovery import await_nothing_missing, kill_in_turn
from system.tiny_run import TinyRun

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

NUM_ENVIRONMENTS = 4
SETTINGS = f"""
    envs_per_worker = {NUM_ENVIRONMENTS}
    num_iter = 1000000
    eval_period_itrs = 100
    n_episodes_in_buffer = 100000
"""


@pytest.fixture
def run(tmp_path):
    made = TinyRun(tmp_path, SETTINGS)
    yield made
    made.end()


def test_after_kills_each_env_step_of_each_environment_is_stored_once(run):
    run.set_pace(0.002)
    process = run.start()
    kill_in_turn(
        run, ("sac_collect.py 0", "sac_replay_buffer.py", "sac_collect.py 0"), num_steps=100
    )
    await_nothing_missing(run)
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 143
    stored = stored_steps(run)
    assert max(stored.values()) == 1
    lives = lives_of(run)
    assert len(lives) == 3
    # A worker that is killed has not sent its last burst, nor the blocks that are not full.
    unsent = BURST + NUM_ENVIRONMENTS * LAYOUT.rows
    for life, num_steps in lives.items():
        missing = [k for k in range(1, num_steps + 1 - unsent) if (life, k) not in stored]
        assert missing == []
