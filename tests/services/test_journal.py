"""What a checkpoint lacks is sent again, once, also after the end of its worker."""

import numpy as np
import pytest
from journal_fakes import (
    RECORD_BYTES,
    described,
    numbers,
    only_file,
    reconcile,
    step,
    stored,
    together,
    values,
)

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.services.journal import Checkpoints, Stream, streams_with_journals
from tfagents_system.services.replay_files import NOTHING


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
