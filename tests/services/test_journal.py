import types

import numpy as np
import pytest
import tensorflow as tf
from small_disk import small_disk

from tfagents_system.services.journal import RESTART_GAP, Checkpoints, Journal, journal_owners
from tfagents_system.services.replay_files import NOTHING, StoredNumbers

COLUMNS = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.int32)]
RECORD_BYTES = 8 + 1 + 2 * 4 + 4


def stored(*ranges, is_full=False):
    return StoredNumbers(np.array(ranges, np.int64).reshape(-1, 2), is_full)


def step(value, completes_item=True):
    return [np.full(2, value, np.float32), np.full(1, value, np.int32)], completes_item


def values(steps):
    for s in steps:
        assert s.columns[0].tolist() == [s.columns[1][0]] * 2
        assert s.columns[0].dtype == np.float32 and s.columns[1].dtype == np.int32
    return [int(s.columns[1][0]) for s in steps]


def reconcile(journal, newest, older=NOTHING, gone=types.MappingProxyType({})):
    """With a server that inserts in order."""
    return journal.reconcile(Checkpoints(newest, older, gone), num_unordered=1)


@pytest.fixture
def open_journal(tmp_path):
    def open_it(rows_per_item=1, max_bytes=10**6, worker_id=0, **arguments):
        return Journal(tmp_path / "journals", worker_id, COLUMNS, rows_per_item, max_bytes,
                       **arguments)  # fmt: skip

    return open_it


def only_file(tmp_path):
    (path,) = (tmp_path / "journals").iterdir()
    return path


def test_what_a_checkpoint_lacks_is_returned_once_under_new_numbers(open_journal):
    journal = open_journal()
    assert [s.number for s in journal.append([step(v) for v in (1, 2, 3, 4)])] == [1, 2, 3, 4]
    journal.append([step(5), step(6)])
    # 2 and 3 were lost; 5 and 6 are newer than the checkpoint.
    lost = reconcile(journal, stored([1, 1], [4, 4]))
    assert values(lost) == [2, 3]
    assert [(s.number, s.completes_item) for s in lost] == [(7, True), (8, True)]
    assert journal.num_recovered == 2
    assert journal.append([step(9)])[0].number == 9
    assert reconcile(journal, stored([1, 1], [4, 9]), stored([1, 1], [4, 4])) == []


def test_what_may_still_be_on_its_way_is_not_sent_again(open_journal):
    journal = open_journal()
    journal.append([step(v) for v in range(1, 11)])
    checkpoint = stored([1, 2], [5, 6], [9, 10])  # 7 and 8 may arrive after 9 and 10
    assert values(journal.reconcile(Checkpoints(checkpoint, NOTHING, {}), num_unordered=4)) == [
        3,
        4,
    ]


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
    assert len(lines) == 1 and "it holds 63 of at most 84 bytes" in lines[0]
    lost = reconcile(journal, stored([2, 2], [7, 7]))
    assert values(lost) == [2, 3]


def test_after_a_kill_numbers_go_on_and_a_record_cut_short_is_dropped(open_journal, tmp_path):
    open_journal().append([step(v) for v in (1, 2, 3)])
    with only_file(tmp_path).open("ab") as file:
        file.write(b"half a record")
    journal = open_journal()
    first = 3 + RESTART_GAP
    assert journal.append([step(4)])[0].number == first
    assert values(reconcile(journal, stored([1, 1], [first, first]))) == [2, 3]


def test_a_journal_that_was_removed_does_not_use_numbers_again(open_journal, tmp_path):
    journal = open_journal()
    assert reconcile(journal, stored([1, 500])) == []
    (new,) = journal.append([step(1)])
    assert new.number > 500


def test_a_full_disk_leaves_whole_records_only():
    lines = []
    with small_disk(1_000_000) as disk:
        journal = Journal(disk.folder / "journals", 0, COLUMNS, 1, 10**6, log=lines.append)
        block = 4096 // RECORD_BYTES  # records that fit into the first block of the file
        journal.append([step(v) for v in range(block)])
        disk.fill()
        # Only a part of the record that crosses the block's end can be written.
        (cut,) = journal.append([step(block)])
        assert cut.number == block + 1  # it is sent all the same
        disk.free()
        journal.append([step(1000)])
        assert journal.num_unprotected == 1
        assert len(lines) == 1 and "No space left" in lines[0]
        lost = reconcile(journal, stored([9999, 9999]))
    assert values(lost) == [*range(block), 1000]


def test_what_workers_that_are_gone_have_lost_is_taken_over_once(open_journal, tmp_path):
    mine, second, third = (open_journal(2, worker_id=worker_id) for worker_id in range(3))
    mine.append([step(1, False), step(2)])
    second.append([step(21, False), step(22), step(23), step(24)])
    third.append([step(31, False), step(32)])
    with third._path.open("ab") as file:
        file.write(b"half a record")
    gone = {1: stored([2, 2]), 2: NOTHING, 3: NOTHING}  # of 3 there is no journal
    lost = reconcile(mine, stored([2, 2]), gone=gone)
    assert values(lost) == [22, 23, 24, 31, 32]  # the items that end at 23, 24 and 32
    assert [s.completes_item for s in lost] == [False, True, True, False, True]
    assert [s.number for s in lost] == [3, 4, 5, 6, 7]
    assert mine.num_recovered == 3
    assert journal_owners(tmp_path / "journals") == {0}
    # From now on they are its own.
    assert values(reconcile(mine, stored([2, 2], [9, 9]), gone=gone)) == values(lost)


def test_files_of_other_workers_and_layouts_are_not_read(open_journal, tmp_path):
    open_journal().append([step(1)])
    for journal in (open_journal(worker_id=1), open_journal(rows_per_item=2)):
        assert journal.append([step(2)])[0].number == 1
    assert len(list((tmp_path / "journals").iterdir())) == 3
