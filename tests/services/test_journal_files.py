"""Files of journals: full disks, flipped bits, power cuts, other versions."""

import errno
import os
import pathlib
import stat

import numpy as np
import pytest
from fakes import UNRIVALLED
from journal_fakes import (
    COLUMNS,
    RECORD_BYTES,
    numbers,
    only_file,
    reconcile,
    step,
    stored,
    together,
    values,
)
from small_disk import small_disk

from tfagents_system.services.journal import Journal, Stream, streams_with_journals
from tfagents_system.services.replay_files import NOTHING


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
