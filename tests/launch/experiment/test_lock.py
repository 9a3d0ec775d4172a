"""One run per experiment folder, which a job's later start takes over from an earlier one."""

import fcntl
import json
import os
import pwd

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.incarnation import Job
from tfagents_system.launch.experiment.lock import take_lock

FIRST, SECOND = Job("7", 0), Job("7", 1)


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def hold(lock):
    """Locks as another process would: each opening of the file has a lock of its own."""
    descriptors = []

    def hold(job):
        descriptors.append(take_lock(lock, job))
        return descriptors[-1]

    yield hold
    for descriptor in descriptors:
        os.close(descriptor)


def recorded_job(lock):
    return json.loads(lock.read_text())["job"]


def test_programs_inherit_it_and_it_is_free_at_the_end(lock):
    descriptor = take_lock(lock, FIRST)
    assert os.get_inheritable(descriptor)
    assert recorded_job(lock) == {"id": "7", "restart_count": 0}
    os.close(descriptor)
    os.close(take_lock(lock))
    assert recorded_job(lock) is None


def test_it_says_who_holds_it(lock, hold):
    hold(None)
    user = pwd.getpwuid(os.geteuid()).pw_name
    with pytest.raises(ConfigError, match=rf"process {os.getpid()} on .* since .*, of {user}; liv"):
        take_lock(lock)


def test_another_user_s_experiment_is_refused_with_its_owner(lock, hold, monkeypatch):
    hold(None)

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        "tfagents_system.launch.experiment.lock.open_lock", refuse
    )  # root may open all
    owner = pwd.getpwuid(os.geteuid()).pw_name
    refusal = f"is an experiment of {owner}, who alone can start or prune it"
    with pytest.raises(ConfigError, match=refusal):
        take_lock(lock)


@pytest.mark.parametrize("record", ["[]", "7", '{"pid": 1}', "\\udcff", "[" * 5000])
def test_a_damaged_record_of_the_holder_is_no_traceback(lock, hold, record):
    hold(None)
    lock.write_text(record)
    with pytest.raises(ConfigError, match="in use by another run .which has not recorded itself"):
        take_lock(lock, SECOND)


@pytest.mark.parametrize(
    ("holder", "job"),
    [(None, None), (None, SECOND), (FIRST, None), (FIRST, FIRST), (SECOND, FIRST),
     (FIRST, Job("8", 1))],
    ids=["no jobs", "held by no job", "no job", "same start", "earlier start", "another job"],
)  # fmt: skip
def test_nobody_else_takes_over(lock, hold, holder, job):
    hold(holder)
    record, superseded = lock.read_text(), []
    with pytest.raises(ConfigError, match=f"in use by another run .*living here: {os.getpid()}"):
        take_lock(lock, job, lambda: superseded.append(job))
    assert lock.read_text() == record and superseded == []


def test_a_later_start_takes_over_once_the_superseded_one_has_ended(lock, hold, capsys):
    earlier = hold(FIRST)

    def supersede():
        assert recorded_job(lock)["restart_count"] == 0
        fcntl.flock(earlier, fcntl.LOCK_UN)  # it ends

    later = take_lock(lock, SECOND, supersede)
    with pytest.raises(BlockingIOError):
        fcntl.flock(earlier, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(later)
    assert recorded_job(lock)["restart_count"] == 1
    printed = capsys.readouterr().out
    assert "Taking over" in printed and "WARNING" not in printed


def test_a_later_start_goes_on_without_the_lock_of_one_that_hangs(lock, hold, capsys):
    earlier, superseded = hold(FIRST), []
    later = take_lock(lock, SECOND, lambda: superseded.append(True), timeout_secs=0.1)
    assert superseded == [True]
    assert "WARNING: it has held the lock for 0.1 s since; going on without" in (
        capsys.readouterr().out
    )
    assert recorded_job(lock) == {"id": "7", "restart_count": 1}  # which the next one replaces
    with pytest.raises(ConfigError):
        take_lock(lock, FIRST)
    fcntl.flock(earlier, fcntl.LOCK_EX | fcntl.LOCK_NB)  # still its own
    os.close(later)
