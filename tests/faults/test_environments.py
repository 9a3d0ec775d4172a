"""Environments that misbehave in every way, in a real run with two workers."""

import pytest
from system.tiny_run import HORIZON, STEPS_PER_ITER, TinyRun

pytestmark = pytest.mark.faults

REJECTED = ("nan", "inf", "shape", "text")
# float64 becomes float32; bounds of observations are often estimates, and learning needs none.
TAKEN = ("float64", "out of bounds")
RESETS = ("None", "tuple", "shape")
FATAL = ("exits", "is killed")


@pytest.fixture
def run(tmp_path):
    run = TinyRun(tmp_path, more_params="\n    num_iter = 100000\n")
    run.set_pace(0.05)
    yield run
    run.end()


def await_more_steps(run, num_steps):
    """Waits until the worker 0 has collected so many more."""
    before = run.status("worker_0").get("env_steps", 0)
    run.wait_for(lambda: run.status("worker_0").get("env_steps", 0) >= before + num_steps, 60,
                 f"{num_steps} more env steps")  # fmt: skip


def test_misbehaving_environments_cost_an_episode_and_nothing_else(run, ledger):
    process = run.start(num_workers=2)
    run.await_train_step(1)
    for count, kind in enumerate(REJECTED, 1):
        run.set_fault(0, kind)
        run.wait_for(lambda n=count: run.status("worker_0").get("rejected_steps") == n, 30, kind)
        await_more_steps(run, 3 * HORIZON)
        ledger.add("environment", f"observes {kind}: rejected, goes on", True)
    for kind in TAKEN:
        run.set_fault(0, kind)
        await_more_steps(run, 3 * HORIZON)
        assert run.status("worker_0")["rejected_steps"] == len(REJECTED)
        ledger.add("environment", f"observes {kind}: taken", True)
    for count, kind in enumerate(RESETS, 1):
        run.set_fault(0, kind, where="reset")
        run.wait_for(lambda n=count: run.status("worker_0").get("env_failures") == n, 30, kind)
        await_more_steps(run, 3 * HORIZON)
        ledger.add("environment", f"its reset returns {kind}: a new one, goes on", True)
    for kind in FATAL:
        pid, steps = run.pid("sac_collect.py 0"), run.status("worker_1")["env_steps"]
        run.set_fault(0, kind)
        run.wait_for(lambda p=pid: run.pid("sac_collect.py 0") not in (None, p), 30, "a restart")
        await_more_steps(run, 3 * HORIZON)
        assert run.status("worker_1")["env_steps"] > steps
        ledger.add("environment", f"its process {kind}: started again", True)
    run.await_train_step(run.train_step() + STEPS_PER_ITER)
    process.terminate()
    assert run.await_end(process, timeout_secs=60) == 143
    assert run.status("worker_1")["env_failures"] == 0
