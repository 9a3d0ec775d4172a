import pathlib

import numpy as np
import pytest
from replay_fakes import UNLIMITED, EpisodeStepEnv, all_items, codec_of, serving

from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Journal
from tfagents_system.services.replay import EXPERIENCE_TABLE, ReplayLimits, experience_stats
from tfagents_system.services.replay_files import (
    NUMBERS_PER_WORKER,
    StoredNumbers,
    check_is_whole,
    copy_with_table,
    describe_items,
    empty_reverb_root,
    item_priority,
    read_table,
    stored_numbers,
)

STORED = StoredNumbers(np.array([[4, 6], [9, 9], [12, 20]]), is_full=False)
FULL = StoredNumbers(STORED.ranges, is_full=True)
NUMBERS = np.array([1, 3, 4, 6, 7, 8, 9, 10, 12, 20, 21, 99])


def test_every_priority_is_a_number_of_its_own():
    last = NUMBERS_PER_WORKER - 1
    assert item_priority(4095, last) - item_priority(4095, last - 1) == 1  # exact in a float64
    assert item_priority(1, 0) == item_priority(0, last) + 1


@pytest.mark.parametrize(
    "stored, lost, removed", [(STORED, [1, 3, 7, 8, 10], []), (FULL, [7, 8, 10], [1, 3])]
)
def test_what_is_missing_before_a_number_that_is_there_was_lost_or_removed(stored, lost, removed):
    assert NUMBERS[stored.contains(NUMBERS)].tolist() == [4, 6, 9, 12, 20]
    assert NUMBERS[stored.were_lost(NUMBERS, num_unordered=1)].tolist() == lost
    in_order = [n for n in lost if n <= 20 - 11]  # 20 is the highest that is stored
    assert NUMBERS[stored.were_lost(NUMBERS, num_unordered=11)].tolist() == in_order
    assert NUMBERS[stored.were_removed(NUMBERS)].tolist() == removed


def test_nothing_is_lost_as_long_as_nothing_is_stored():
    empty = stored_numbers({"numbers": {"1": [[1, 9]]}, "is_full": True}, worker_id=0)
    assert empty.last == 0
    assert not empty.were_lost(NUMBERS, num_unordered=1).any()
    for answer in (empty.contains, empty.were_removed):
        assert not answer(NUMBERS).any()


def save(folder, num_steps_by_worker, limits=UNLIMITED, layout=SINGLE):
    """Returns a checkpoint of a server that workers have filled in turns, and its address."""
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    codec = codec_of(environment)
    with serving(folder / "before", limits) as replay:
        time_step = environment.reset()
        for worker_id, num_steps in num_steps_by_worker:
            journal = Journal(folder / "journals", worker_id, codec.columns, layout.rows, 10**6)
            adder = Adder(replay.client(), codec, layout, worker_id, journal)
            for _ in range(num_steps):
                action = np.zeros(1, np.float32)
                next_time_step = environment.step(action)
                adder.add(time_step, action, next_time_step)
                time_step = next_time_step
            adder.send()
            assert adder.is_confirmed(timeout_secs=5)
        return pathlib.Path(replay.client().checkpoint()), codec


def test_a_checkpoint_tells_the_numbers_of_each_worker(tmp_path):
    checkpoint, _ = save(tmp_path, [(0, 5), (3, 4)])
    description = describe_items(checkpoint, EXPERIENCE_TABLE)
    assert description == {"is_full": False, "numbers": {"0": [[2, 6]], "3": [[2, 5]]}}


def test_an_item_of_a_block_stands_for_its_rows(tmp_path):
    checkpoint, _ = save(tmp_path, [(0, 11), (3, 4)], layout=ItemLayout(4))
    description = describe_items(checkpoint, EXPERIENCE_TABLE, stride=5)
    assert description == {"is_full": False, "numbers": {"0": [[1, 2 * 5]], "3": [[1, 5]]}}


def test_a_start_empties_its_own_folder_and_those_before(tmp_path):
    newer = empty_reverb_root(tmp_path, 12)
    (newer / "2026-11-24T01:02:03").mkdir()
    for name in ("9999.txt", "2025-01-01", "3/2025-01-01", "11/items"):
        (newer.parent / name).mkdir(parents=True)
    own = empty_reverb_root(tmp_path, 11)
    assert list(own.iterdir()) == []
    assert {path.name for path in own.parent.iterdir()} == {own.name, newer.name}
    assert [path.name for path in newer.iterdir()] == ["2026-11-24T01:02:03"]


@pytest.mark.parametrize("name", ["items.tfrecord", "chunks.tfrecord", "tables.tfrecord"])
def test_a_file_that_is_cut_short_is_found(tmp_path, name):
    checkpoint, _ = save(tmp_path, [(0, 50)])
    check_is_whole(checkpoint)
    path = checkpoint / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{name} is cut short"):
        check_is_whole(checkpoint)


def test_a_full_table_says_so(tmp_path):
    limits = ReplayLimits(capacity=6, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    checkpoint, _ = save(tmp_path, [(0, 5), (3, 4)], limits)
    description = describe_items(checkpoint, EXPERIENCE_TABLE)
    assert description == {"is_full": True, "numbers": {"0": [[5, 6]], "3": [[2, 5]]}}


@pytest.mark.parametrize("capacity, first", [(20, 0), (4, 5)])
def test_a_copy_with_another_capacity_keeps_the_newest_items(tmp_path, capacity, first):
    checkpoint, codec = save(tmp_path, [(0, 9)])
    table = read_table(checkpoint, EXPERIENCE_TABLE)
    table.max_size = capacity
    copy_with_table(checkpoint, tmp_path / "copy", table)
    limits = ReplayLimits(capacity, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    with serving(tmp_path / "after", limits, tmp_path / "copy") as replay:
        items = all_items(replay.client(), codec)
        assert [t.observation[1] for t in items] == list(range(first, 9))
        assert experience_stats(replay.client(), timeout_secs=5) == (9 - first, 9)
    assert read_table(checkpoint, EXPERIENCE_TABLE).max_size == UNLIMITED.capacity
