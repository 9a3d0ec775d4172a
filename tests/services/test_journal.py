import dataclasses
import errno
import os
import pathlib
import stat

import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED
from small_disk import small_disk

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.services.journal import (
    Checkpoints,
    Journal,
    Stream,
    streams_with_journals,
)
from tfagents_system.services.replay_files import (
    NOTHING,
    StoredNumbers,
    _as_ranges,
    first_number,
)

COLUMNS = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.int32)]
RECORD_BYTES = 8 + 8 + 1 + 2 * 4 + 4 + 4  # place, number, flag, columns, checksum


def stored(*ranges, is_full=False, stream=1):
    """What a checkpoint holds: ranges of the rows of a stream, counted from 1."""
    ranges = np.array(ranges, np.int64).reshape(-1, 2)
    return StoredNumbers(ranges + first_number(stream) - 1, is_full)


def described(numbers, capacity, older=NOTHING):
    """What the checkpoint after `older` holds of a table in which `numbers` have arrived."""
    left = np.sort(np.array(numbers[-capacity:], np.int64))
    contents = StoredNumbers(_as_ranges(left, stride=1), len(left) == capacity)
    return dataclasses.replace(contents, removed=contents.removed_after(older))


def together(*contents):
    return StoredNumbers(np.concatenate([c.ranges for c in contents]), contents[0].is_full)


def step(value, completes_item=True):
    return [np.full(2, value, np.float32), np.full(1, value, np.int32)], completes_item


def values(steps):
    for s in steps:
        assert s.columns[0].tolist() == [s.columns[1][0]] * 2
        assert s.columns[0].dtype == np.float32 and s.columns[1].dtype == np.int32
    return [int(s.columns[1][0]) for s in steps]


def numbers(steps, stream=1):
    """Of a stream, counted from 1."""
    return [int(s.number) - first_number(stream) + 1 for s in steps]


def reconcile(journal, newest, older=NOTHING, gone=()):
    """With a server that inserts in order."""
    return journal.reconcile(Checkpoints(newest, older, gone), num_unordered=1)


@pytest.fixture
def open_journal(tmp_path):
    def open_it(rows_per_item=1, max_bytes=10**6, stream=(0, 1), fence=UNRIVALLED, **arguments):
        return Journal(tmp_path / "journals", Stream(*stream), COLUMNS, rows_per_item, max_bytes,
                       fence, **arguments)  # fmt: skip

    return open_it


def only_file(tmp_path):
    (path,) = (tmp_path / "journals").iterdir()
    return path


def test_what_a_checkpoint_lacks_is_returned_once_under_new_numbers(open_journal):
    journal = open_journal()
    assert numbers(journal.append([step(v) for v in (1, 2, 3, 4)])) == [1, 2, 3, 4]
    journal.append([step(5), step(6)])
    # 2 and 3 were lost; 5 and 6 are newer than the checkpoint.
    lost = reconcile(journal, stored([1, 1], [4, 4]))
    assert values(lost) == [2, 3]
    assert numbers(lost) == [7, 8] and all(s.completes_item for s in lost)
    assert journal.num_recovered == 2
    assert numbers(journal.append([step(9)])) == [9]
    assert reconcile(journal, stored([1, 1], [4, 9]), stored([1, 1], [4, 4])) == []


def test_what_may_still_be_on_its_way_is_not_sent_again(open_journal):
    journal = open_journal()
    journal.append([step(v) for v in range(1, 11)])
    checkpoint = stored([1, 2], [5, 6], [9, 10])  # 7 and 8 may arrive after 9 and 10
    lost = journal.reconcile(Checkpoints(checkpoint, NOTHING, ()), num_unordered=4)
    assert values(lost) == [3, 4]


def test_what_was_sent_again_and_lost_again_is_returned_again(open_journal):
    journal = open_journal()
    journal.append([step(v) for v in (1, 2, 3)])
    assert values(reconcile(journal, stored([1, 1], [3, 3]))) == [2]
    journal.append([step(5)])  # number 5; number 4 is step 2
    assert values(reconcile(journal, stored([1, 1], [5, 5]), stored([1, 1]))) == [3, 2]


def test_an_item_is_kept_until_two_checkpoints_have_it(open_journal, tmp_path):
    journal = open_journal()
    journal.append([step(v) for v in (1, 2, 3)])
    reconcile(journal, stored([1, 3]), stored([1, 2]))
    assert only_file(tmp_path).stat().st_size == RECORD_BYTES
    journal.append([step(4)])
    # The newest was damaged: the server has been restored from the one before.
    assert values(reconcile(journal, stored([1, 2], [4, 4]), stored([1, 3]))) == [3]


def test_what_a_full_table_has_removed_is_not_sent_again(open_journal, tmp_path):
    journal = open_journal()
    journal.append([step(v) for v in range(1, 10)])
    lost = reconcile(journal, stored([4, 6], [8, 8], is_full=True))
    assert values(lost) == [7]
    assert only_file(tmp_path).stat().st_size == 6 * RECORD_BYTES  # 4, 5, 6, 8, 9 and 7 again


def test_a_sequence_is_returned_with_all_of_its_steps(open_journal):
    journal = open_journal(rows_per_item=3)
    # Episodes of 5 and 3 steps; items end at 3, 4, 5 and 8.
    journal.append([step(v, v in (3, 4, 5, 8)) for v in range(1, 9)])
    journal.append([step(v, v == 11) for v in (9, 10, 11)])
    lost = reconcile(journal, stored([3, 3], [11, 11]))
    assert values(lost) == [2, 3, 4, 5, 6, 7, 8]  # the items that end at 4, 5 and 8
    assert [s.completes_item for s in lost] == [v in (4, 5, 8) for v in range(2, 9)]
    # Again, from what is left in the file.
    again = reconcile(journal, stored([3, 3], [11, 11], [19, 19]))
    assert values(again) == values(lost)


def test_a_sequence_with_a_hole_is_not_returned(open_journal):
    lines = []
    journal = open_journal(rows_per_item=2, max_bytes=4 * RECORD_BYTES, log=lines.append)
    journal.append([step(1, False), step(2), step(3)])
    journal.append([step(4), step(5)])  # no space for two
    journal.append([step(6)])
    assert journal.num_unprotected == 2
    assert (
        len(lines) == 1
        and f"it holds {3 * RECORD_BYTES} of at most {4 * RECORD_BYTES} bytes" in lines[0]
    )
    lost = reconcile(journal, stored([2, 2], [7, 7]))
    assert values(lost) == [2, 3]


def test_the_next_start_of_a_killed_worker_takes_over_what_was_lost(open_journal, tmp_path):
    open_journal(stream=(0, 1)).append([step(v) for v in (1, 2, 3)])
    with only_file(tmp_path).open("ab") as file:
        file.write(b"half a record")
    journal = open_journal(stream=(0, 3))
    assert numbers(journal.append([step(4)]), stream=3) == [1]
    newest = together(stored([1, 1]), stored([1, 1], stream=3))
    lost = reconcile(journal, newest, gone={Stream(0, 1)})
    assert values(lost) == [2, 3]
    assert numbers(lost, stream=1) == [2, 3]  # as they had: one may arrive late, and be there twice
    assert streams_with_journals(tmp_path / "journals") == {Stream(0, 3)}
    assert numbers(journal.append([step(5)]), stream=3) == [4]  # 2 and 3 are their places


def test_what_was_taken_over_is_lost_and_settled_by_its_place_in_the_new_stream(open_journal):
    open_journal(stream=(0, 1)).append([step(v) for v in (1, 2, 3)])
    journal = open_journal(stream=(0, 3))
    journal.append([step(4)])
    first = together(stored([1, 1]), stored([1, 1], stream=3))
    assert values(reconcile(journal, first, gone={Stream(0, 1)})) == [2, 3]
    assert reconcile(journal, first) == []  # they may still be on their way
    journal.append([step(5)])
    later = together(stored([1, 2]), stored([1, 1], [4, 4], stream=3))
    again = reconcile(journal, later, first)
    assert values(again) == [3]
    assert numbers(again, stream=1) == [3]
    journal.append([step(6)])
    last = together(stored([1, 3]), stored([1, 1], [4, 6], stream=3))
    assert reconcile(journal, last, later) == reconcile(journal, last, last) == []


def test_what_a_full_table_has_removed_of_an_earlier_start_is_not_taken_over(open_journal):
    for stream, of_step in (((0, 1), 1), ((5, 2), 21)):
        open_journal(stream=stream).append([step(v) for v in range(of_step, of_step + 3)])
    journal = open_journal(stream=(0, 3))
    journal.append([step(v) for v in (4, 5)])
    newest = together(stored([2, 2], is_full=True, stream=2), stored([2, 2], stream=3))
    lost = reconcile(journal, newest, gone={Stream(0, 1), Stream(5, 2)})
    assert values(lost) == [23]  # 21 was before 22, and 1, 2, 3 before 5


@pytest.mark.parametrize("gone, living", [(1, 2), (2, 1)])
def test_a_gone_worker_of_which_a_full_table_has_removed_everything_has_lost_nothing(
    open_journal, gone, living
):
    num_rows, capacity = 1000, 400
    of_gone = open_journal(stream=(7, gone)).append([step(v) for v in range(num_rows)])
    heir = open_journal(stream=(3, living))
    of_heir = heir.append([step(v) for v in range(2 * num_rows)])
    in_order = [row.number for row in [*of_heir[:10], *of_gone, *of_heir[10:]]]
    older = described(in_order[:num_rows], capacity)
    newest = described(in_order, capacity, older)
    assert newest.last(gone) == 0
    assert reconcile(heir, newest, older, gone={Stream(7, gone)}) == []
    assert heir.num_recovered == 0


def test_a_gone_worker_that_a_full_table_never_had_is_taken_over(open_journal):
    """It has not been removed: a crash of the server, and its own, came before a checkpoint."""
    heir = open_journal(stream=(3, 1))
    of_heir = [row.number for row in heir.append([step(v) for v in range(500)])]
    open_journal(stream=(7, 2)).append([step(v) for v in (1000, 1001)])
    older = described(of_heir[:490], capacity=100)
    newest = described(of_heir, 100, older)
    lost = reconcile(heir, newest, older, gone={Stream(7, 2)})
    assert values(lost) == [1000, 1001]


class Table:
    """Removes its oldest items when it is full; a crash takes it back to its last checkpoint."""

    def __init__(self, capacity):
        self.capacity, self.numbers, self.steps = capacity, [], []
        self.removed = set()  # steps
        self.saved = self.before = ([], [], set(), NOTHING)

    def insert(self, rows):
        for number, value in zip([row.number for row in rows], values(rows), strict=True):
            assert value not in self.steps and value not in self.removed
            self.numbers.append(number)
            self.steps.append(value)
        self.removed |= set(self.steps[: -self.capacity])
        self.numbers, self.steps = self.numbers[-self.capacity :], self.steps[-self.capacity :]

    def save(self):
        stored = described(self.numbers, self.capacity, self.saved[-1])
        self.before, self.saved = self.saved, (self.numbers, self.steps, self.removed, stored)
        self.removed = set(self.removed)

    def crash(self):
        self.numbers, self.steps, removed, _ = self.saved
        self.numbers, self.steps, self.removed = [*self.numbers], [*self.steps], set(removed)

    def checkpoints(self, gone):
        return Checkpoints(self.saved[-1], self.before[-1], gone)


@pytest.mark.parametrize("seed", range(20))
def test_crashes_and_a_death_beside_a_full_table_lose_and_repeat_nothing(open_journal, seed):
    """Two workers send to a table that turns over; one is lost, maybe with its last rows."""
    rng, steps = np.random.default_rng(seed), iter(range(10**6))
    table = Table(capacity=int(rng.integers(50, 300)))
    streams = [Stream(worker, k + 1) for k, worker in enumerate(rng.permutation(2).tolist())]
    journals = {stream: open_journal(stream=stream) for stream in streams}

    def send(stream):
        new = [step(next(steps)) for _ in range(int(rng.integers(1, 20)))]
        table.insert(journals[stream].append(new))

    def save_and_reconcile(living, gone=()):
        for stream in living:
            send(stream)  # what comes after a loss tells that it is one
        table.save()
        checkpoints = table.checkpoints(gone)
        for stream in living:
            table.insert(journals[stream].reconcile(checkpoints, num_unordered=1))

    for _ in range(8):
        for _ in range(int(rng.integers(1, 5))):
            send(streams[rng.integers(2)])
        if rng.random() < 0.25:
            table.crash()
        save_and_reconcile(streams)
    gone, heir = (streams[k] for k in rng.permutation(2))
    send(gone)
    if rng.random() < 0.5:
        table.crash()
    for _ in range(int(rng.integers(0, 12))):
        send(heir)
        save_and_reconcile([heir])
    save_and_reconcile([heir], {gone})
    # What nothing younger has been removed of is there, once: `insert` has seen to the latter.
    last_removed = max(table.removed, default=-1)
    assert set(range(last_removed + 1, next(steps))) <= set(table.steps)


def test_two_journals_with_the_same_items_are_taken_over_as_one(open_journal, tmp_path):
    """As after a kill between the renewal of one file and the removal of the other."""
    open_journal(stream=(1, 1)).append([step(v) for v in (1, 2)])
    (source,) = (tmp_path / "journals").iterdir()
    (tmp_path / source.name).write_bytes(source.read_bytes())
    second = open_journal(stream=(2, 2))
    assert values(reconcile(second, NOTHING, gone={Stream(1, 1)})) == [1, 2]
    (tmp_path / source.name).rename(source)
    third = open_journal(stream=(3, 3))
    assert values(reconcile(third, NOTHING, gone={Stream(1, 1), Stream(2, 2)})) == [1, 2]
    (tmp_path / "journals" / source.name).write_bytes(b"")
    assert reconcile(third, NOTHING, gone={Stream(1, 1)}) == []


def test_a_worker_that_is_superseded_leaves_its_journal_as_it_is(open_journal, tmp_path):
    paths = ExperimentPaths(tmp_path)
    fence = Fence.of_worker(paths, "worker_0")
    journal = open_journal(stream=(0, fence.number), fence=fence)
    journal.append([step(v) for v in (1, 2, 3)])
    Fence.of_worker(paths, "worker_0")
    before = only_file(tmp_path).read_bytes()
    with pytest.raises(SupersededError):
        reconcile(journal, stored([1, 1], [3, 3]))
    assert only_file(tmp_path).read_bytes() == before


def test_a_worker_whose_journal_was_taken_over_after_a_long_silence_goes_on(open_journal, tmp_path):
    journal = open_journal(stream=(0, 1))
    journal.append([step(v) for v in (1, 2)])
    reconcile(open_journal(stream=(1, 2)), NOTHING, gone={Stream(0, 1)})
    assert reconcile(journal, stored([1, 1])) == []
    assert numbers(journal.append([step(3)])) == [3]
    journal.append([step(4)])
    assert values(reconcile(journal, stored([1, 1], [4, 4]))) == [3]


def test_a_full_disk_leaves_whole_records_only():
    lines = []
    with small_disk(1_000_000) as disk:
        journal = Journal(disk.folder / "journals", Stream(0, 1), COLUMNS, 1, 10**6, UNRIVALLED,
                          log=lines.append)  # fmt: skip
        block = 4096 // RECORD_BYTES  # records that fit into the first block of the file
        journal.append([step(v) for v in range(block)])
        disk.fill()
        # Only a part of the record that crosses the block's end can be written.
        (cut,) = journal.append([step(block)])
        assert numbers([cut]) == [block + 1]  # it is sent all the same
        disk.free()
        journal.append([step(1000)])
        assert journal.num_unprotected == 1
        assert len(lines) == 1 and "No space left" in lines[0]
        lost = reconcile(journal, stored([9999, 9999]))
    assert values(lost) == [*range(block), 1000]


def test_what_workers_that_are_gone_have_lost_is_taken_over_once(open_journal, tmp_path):
    mine, second, third = (open_journal(2, stream=(k, k + 1)) for k in range(3))
    mine.append([step(1, False), step(2)])
    second.append([step(21, False), step(22), step(23), step(24)])
    third.append([step(31, False), step(32)])
    with (tmp_path / "journals" / "worker_2_stream_3_float32x2_int32x1x2.records").open(
        "ab"
    ) as file:
        file.write(b"half a record")
    newest = together(stored([2, 2]), stored([2, 2], stream=2))
    gone = {Stream(1, 2), Stream(2, 3), Stream(3, 4)}  # of 4 there is no journal
    lost = reconcile(mine, newest, gone=gone)
    assert values(lost) == [22, 23, 24, 31, 32]  # the items that end at 23, 24 and 32
    assert [s.completes_item for s in lost] == [False, True, True, False, True]
    assert numbers(lost[:3], stream=2) == [2, 3, 4]
    assert numbers(lost[3:], stream=3) == [1, 2]
    assert mine.num_recovered == 3
    assert streams_with_journals(tmp_path / "journals") == {Stream(0, 1)}
    # From now on they are its own.
    mine.append([step(9, False), step(10)])
    assert values(reconcile(mine, stored([2, 2], [9, 9]), gone=gone)) == values(lost)


def test_files_of_other_layouts_are_not_read(open_journal, tmp_path):
    open_journal(stream=(1, 1)).append([step(1)])
    assert reconcile(open_journal(2, stream=(2, 2)), NOTHING, gone={Stream(1, 1)}) == []
    assert len(list((tmp_path / "journals").iterdir())) == 2


@pytest.mark.parametrize("is_own", [True, False])
def test_any_flipped_bit_costs_its_record_and_is_told(open_journal, tmp_path, is_own):
    lines = []
    for bit in range(0, 8 * RECORD_BYTES, 5):  # 5 and 8 have no common divisor: every byte
        journal = open_journal(stream=(0, 2 * bit + 1), log=lines.append)
        journal.append([step(v) for v in (1, 2, 3, 4)])
        path = max((tmp_path / "journals").iterdir(), key=lambda p: p.stat().st_mtime_ns)
        content = bytearray(path.read_bytes())
        content[RECORD_BYTES + bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        if is_own:
            lost = reconcile(journal, stored([4, 4], stream=2 * bit + 1))
            assert values(lost) == [1, 3], bit
        else:
            journal = open_journal(stream=(0, 2 * bit + 2), log=lines.append)
            lost = reconcile(journal, NOTHING, gone={Stream(0, 2 * bit + 1)})
            assert values(lost) == [1, 3, 4], bit
        assert journal.num_damaged == 1
        assert lines.pop() == f"Journal {path}: 1 of 4 records are damaged and left out."
        assert reconcile(journal, NOTHING) == [] and not lines  # it is gone from the file
        for file in (tmp_path / "journals").iterdir():
            file.unlink()


def test_a_sequence_with_a_damaged_step_is_not_sent(open_journal, tmp_path):
    journal = open_journal(rows_per_item=2)
    journal.append([step(1, False), step(2), step(3), step(4)])
    path = only_file(tmp_path)
    content = bytearray(path.read_bytes())
    content[2 * RECORD_BYTES + 20] ^= 1  # of 3, which the items that end at 3 and 4 need
    path.write_bytes(content)
    assert values(reconcile(journal, stored([9999, 9999]))) == [1, 2]
    assert journal.num_damaged == 1


def test_what_a_power_cut_has_not_written_is_no_record(open_journal, tmp_path):
    open_journal(stream=(0, 1)).append([step(v) for v in range(1, 6)])
    path = only_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: 3 * RECORD_BYTES + 9] + bytes(len(content) - 3 * RECORD_BYTES - 9))
    journal = open_journal(stream=(0, 2))
    assert values(reconcile(journal, NOTHING, gone={Stream(0, 1)})) == [1, 2, 3]
    assert journal.num_damaged == 2


def test_a_journal_of_an_older_version_is_taken_over_and_told(open_journal, tmp_path):
    open_journal(stream=(0, 1)).append([step(v) for v in (1, 2, 3)])
    path = only_file(tmp_path)
    records = np.frombuffer(path.read_bytes(), f"V{RECORD_BYTES}")
    without_checksum = b"".join(record.tobytes()[:-4] for record in records)
    path.unlink()
    older = path.with_suffix(".rows")
    older.write_bytes(without_checksum + b"half a")
    assert streams_with_journals(tmp_path / "journals") == {Stream(0, 1)}
    lines = []
    journal = open_journal(stream=(0, 2), log=lines.append)
    assert values(reconcile(journal, stored([1, 1]), gone={Stream(0, 1)})) == [2, 3]
    assert len(lines) == 1 and "an older version has written it, without checksums" in lines[0]
    assert not older.exists() and journal.num_damaged == 0
    journal.append([step(9)])
    later = together(stored([1, 1]), stored([3, 3], stream=2))  # 2 and 3 have the places 1 and 2
    assert values(reconcile(journal, later)) == [2, 3]


def test_a_disk_that_fails_leaves_the_journal_as_it_is_until_the_next_checkpoint(
    open_journal, tmp_path, monkeypatch
):
    lines = []
    journal = open_journal(log=lines.append)
    journal.append([step(v) for v in (1, 2, 3)])
    before = only_file(tmp_path).read_bytes()

    def fail(*arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for module, name in (
        (os, "listdir"),
        (os, "fsync"),
        (os, "replace"),
        (pathlib.Path, "read_bytes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            assert reconcile(journal, stored([1, 1], [3, 3])) == []
        assert "cannot be renewed: [Errno 5] Input/output error" in lines.pop()
        assert only_file(tmp_path).read_bytes() == before
    assert values(reconcile(journal, stored([1, 1], [3, 3]))) == [2]


def test_a_renewal_that_fails_after_its_rename_gives_no_number_twice(
    open_journal, tmp_path, monkeypatch
):
    journal = open_journal(log=lambda line: None)
    journal.append([step(v) for v in (1, 2, 3)])
    fsync = os.fsync

    def fail_for_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_for_folders)
        assert reconcile(journal, stored([1, 1], [3, 3])) == []
    (sent,) = numbers(journal.append([step(5)]))
    assert sent == 5  # 4 is that of step 2 in the file
    again = reconcile(journal, stored([1, 1], [3, 3], [5, 5]))
    assert values(again) == [2] and numbers(again) == [6]
    assert numbers(journal.append([step(6)])) == [7]


def test_a_journal_of_another_stream_that_cannot_be_removed_is_not_sent_twice(
    open_journal, tmp_path, monkeypatch
):
    open_journal(stream=(0, 1)).append([step(v) for v in (1, 2)])
    journal = open_journal(stream=(0, 2))

    def fail(path, **options):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "unlink", fail)
        assert values(reconcile(journal, NOTHING, gone={Stream(0, 1)})) == [1, 2]
    assert reconcile(journal, NOTHING, gone={Stream(0, 1)}) == []
    assert streams_with_journals(tmp_path / "journals") == {Stream(0, 2)}
