"""A clock that is set while a run goes on, and programs that disagree about the time zone."""

import pathlib
import time

import pytest
from faults.recovery import ENDLESS, has_all_moving_after, stop_and_account
from system.tiny_run import TinyRun

pytestmark = pytest.mark.faults

HOUR, DAY = 3600, 24 * 3600
ZONES = ("Asia/Tokyo", "America/New_York")
# Every Python process of the run imports it. Reverb's own clock, in C++, cannot be moved so.
SITECUSTOMIZE = f"""
import os
import pathlib
import time

true_time, offset = time.time, pathlib.Path(__file__).with_name("offset")
time.time = lambda: true_time() + float(offset.read_text())
os.environ["TZ"] = {ZONES}[os.getpid() % 2]
time.tzset()
"""


@pytest.fixture
def run(tmp_path):
    run = TinyRun(tmp_path, ENDLESS)
    run.set_pace(0.02)
    yield run
    run.end()


class Clock:
    """The clock of a run's programs, apart from the true time."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
        self.set(0)

    def set(self, secs: float) -> None:
        temporary = self.folder / "offset.new"
        temporary.write_text(str(secs))
        temporary.replace(self.folder / "offset")


def await_new_generations(run):
    """Waits until all generations are newer than those of now."""
    newest = run.generations()[0]
    run.wait_for(lambda: min(run.generations()) > newest, 60, "two new generations")


def test_a_clock_that_is_set_costs_no_checkpoint(run, tmp_path, ledger):
    assert all(pathlib.Path("/usr/share/zoneinfo", zone).exists() for zone in ZONES)
    clock = Clock(tmp_path / "clock")
    run.start(num_workers=2, PYTHONPATH=str(clock.folder))
    run.wait_for(run.generations, 180, "the first generation")
    for secs, what in ((-HOUR, "back an hour"), (DAY, "forward a day")):
        clock.set(secs)
        run.wait_for(
            lambda secs=secs: abs(run.status("learner")["written_at"] - time.time() - secs) < 60,
            30, "a report with the new time",
        )  # fmt: skip
        await_new_generations(run)
        for program in ("sac_replay_buffer.py", "sac_train.py", "sac_collect.py 0"):
            old = run.kill(program)
            is_back = has_all_moving_after(
                run, lambda program=program, old=old: run.pid(program) not in (None, old)
            )
            run.wait_for(is_back, 60, f"the return of {program}")
        await_new_generations(run)
        ledger.add("clock", f"set {what}, time zones mixed: saves, comes back from kills", True)

    run.kill_everything()
    saved = run.generations()[0]
    clock.set(0)  # a day back: the newest files are from the future
    process = run.start(num_workers=2, PYTHONPATH=str(clock.folder))
    await_new_generations(run)
    assert run.restored_steps()[-1] == saved
    assert run.restored_steps() == sorted(run.restored_steps())
    ledger.add("clock", "set back a day before a resume: the newest generation is restored", True)
    stop_and_account(run, process, ledger, "clock")
