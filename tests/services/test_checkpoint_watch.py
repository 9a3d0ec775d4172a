import errno
import functools
import os

import pytest
from fakes import FakeClock
from replay_fakes import make_experiment
from report_fakes import worker_report, write_report

from tfagents_system.core.state.liveness import LivingPrograms
from tfagents_system.services import checkpoint_watch
from tfagents_system.services.checkpoint_watch import PERIOD_SECS, CheckpointWatch
from tfagents_system.services.journal import Stream
from tfagents_system.services.replay_files import first_number


@pytest.fixture
def clock(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(checkpoint_watch.time, "monotonic", clock)
    living = functools.partial(LivingPrograms, clock=clock)
    monkeypatch.setattr(checkpoint_watch, "LivingPrograms", living)
    return clock


@pytest.fixture
def stored(monkeypatch, clock):
    """Numbers in the newest checkpoint, of which there is a new one whenever the clock moves."""
    stored = []

    def read_manifests(root):
        ranges = [[number, number] for number in stored]
        return [{"saved_at": clock.now, "stored": {"ranges": ranges, "is_full": False}}]

    monkeypatch.setattr(checkpoint_watch, "read_manifests", read_manifests)
    return stored


@pytest.fixture
def paths(tmp_path):
    paths = make_experiment(tmp_path / "exp")
    paths.journals.mkdir(parents=True)
    return paths


def make_journal(paths, stream):
    name = f"worker_{stream.worker_id}_stream_{stream.number}_float32x6x9.records"
    (paths.journals / name).touch()


def test_journals_of_silent_workers_fall_to_the_first_that_works(paths, clock, stored):
    of_7 = {Stream(7, 2), Stream(7, 9)}
    streams = [Stream(0, 11), Stream(1, 1), Stream(2, 3)]
    for stream in (*streams, *of_7):
        make_journal(paths, stream)
    write_report(paths, worker_report(7))  # and then it has vanished
    watches = [CheckpointWatch(paths, stream, silent_secs=100.0) for stream in streams]
    gone = {watch: [] for watch in watches}
    for sequence in range(40):
        clock.sleep(10)
        for worker_id, watch in enumerate(watches):
            if worker_id or sequence > 20:  # worker 0 starts late
                write_report(paths, worker_report(worker_id, sequence=sequence))
                gone[watch].append(watch.look().gone)
    first, second, third = gone.values()
    assert second[0] == second[9] == set()
    assert second[12] == {Stream(0, 11)} | of_7  # of worker 0 nothing has been seen, either
    assert second[-1] == first[0] == set()
    assert first[-1] == of_7
    assert not any(third)


def test_earlier_starts_of_a_worker_are_gone_when_a_checkpoint_is_of_after_them(
    paths, clock, stored
):
    for stream in (Stream(3, 4), Stream(3, 7), Stream(3, 8), Stream(3, 9)):
        make_journal(paths, stream)
    watch = CheckpointWatch(paths, Stream(3, 8), silent_secs=100.0)
    stored.append(first_number(7))
    clock.sleep(PERIOD_SECS)
    assert watch.look().gone == set()
    stored.append(first_number(8))
    clock.sleep(PERIOD_SECS)
    assert watch.look().gone == {Stream(3, 4), Stream(3, 7)}  # stream 9 is of a later start


def test_each_checkpoint_is_shown_once_and_those_of_older_versions_never(paths, clock, monkeypatch):
    watch = CheckpointWatch(paths, Stream(0, 1), silent_secs=100.0)
    manifests = [{"saved_at": 1.0, "items": {}}]
    monkeypatch.setattr(checkpoint_watch, "read_manifests", lambda root: manifests)
    clock.sleep(PERIOD_SECS)
    assert watch.look() is None
    for number in (1, 2):
        contents = {"ranges": [[first_number(1), first_number(1) + number]], "is_full": False}
        manifests.insert(0, {"saved_at": 1.0 + number, "stored": contents})
        del manifests[2:]
        clock.sleep(PERIOD_SECS)
        shown = watch.look()
        assert shown.newest.last(1) == first_number(1) + number
        assert shown.older.last(1) == (first_number(1) + 1 if number == 2 else 0)
        clock.sleep(PERIOD_SECS)
        assert watch.look() is None


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_look_at_a_disk_that_does_not_answer_finds_nothing_new_and_the_next_one_does(
    paths, clock, stored, monkeypatch, number
):
    """An older checkpoint taken for the newest would make what is stored look lost."""
    watch = CheckpointWatch(paths, Stream(0, 1), silent_secs=100.0)
    read = checkpoint_watch.read_manifests

    def fail(root):
        raise OSError(number, os.strerror(number))

    clock.sleep(PERIOD_SECS)
    monkeypatch.setattr(checkpoint_watch, "read_manifests", fail)
    assert watch.look() is None
    clock.sleep(PERIOD_SECS)
    monkeypatch.setattr(checkpoint_watch, "read_manifests", read)
    assert watch.look() is not None
