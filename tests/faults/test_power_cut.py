"""The power of the disk of a real run is cut again and again."""

import contextlib
import os
import random
import signal

import pytest
from cut_disk import cut_disk
from system.tiny_run import TinyRun

from tfagents_system.core.state.generations import newest_intact_generation
from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.faults

PARAMS = """
    num_iter = 1000000
    checkpoint_period_itrs = 1000000
    checkpoint_period_secs = 0.5
"""


@pytest.fixture
def disk():
    with cut_disk(64 << 20) as disk:
        yield disk


def cut_and_kill(run, disk):
    """Everything ends as it does when the power is cut."""
    pids = list(run.alive())
    disk.cut()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids), 60, "the end")


@pytest.mark.timeout(3600)  # of many cuts
def test_a_run_goes_on_from_the_checkpoint_that_was_announced_last(tmp_path, disk, pytestconfig):
    run = TinyRun(tmp_path, more_params=PARAMS)
    (run.project / "logs").symlink_to(disk.folder)
    run.set_pace(0.01)
    moments = random.Random(27)
    restored = []
    try:
        for _ in range(pytestconfig.getoption("--repeats")):
            process = run.start(num_workers=2, SAC_PRIVATE_NETWORK="0")
            # From its start on it goes on from what was restored; then new ones appear.
            begin = max(run.generations(), default=-1)
            run.wait_for(
                lambda begin=begin: max(run.generations(), default=-1) > begin, 90, "a save"
            )
            train_step = run.train_step() + moments.randrange(200)
            run.await_train_step(train_step)
            announced = [int(step) for line in run.logs().splitlines()
                         for step in [line.partition("Checkpoint at train step ")[2].split(" (")[0]]
                         if step.isdecimal() and line.endswith(" s).")]  # fmt: skip
            cut_and_kill(run, disk)
            process.wait(timeout=30)
            disk.power_on()
            newest = newest_intact_generation(run.paths.checkpoints)
            assert int(newest.name) >= max(announced)
            restored.append(int(newest.name))
        process = run.start(num_workers=2, SAC_PRIVATE_NETWORK="0")
        run.await_train_step(restored[-1] + 20)
        assert run.restored_steps()[-1] == restored[-1]
        os.kill(process.pid, signal.SIGTERM)
        assert run.await_end(process, 90) == 143
    finally:
        run.end()
    assert restored == sorted(restored) and len(set(restored)) > 1
