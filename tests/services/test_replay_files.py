import pathlib

import numpy as np
import pytest
from fakes import UNRIVALLED
from replay_fakes import UNLIMITED, EpisodeStepEnv, all_items, codec_of, serving

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Journal, Stream
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats
from tfagents_system.services.replay_files import (
    NUMBERS_PER_STREAM,
    StoredNumbers,
    check_is_whole,
    copy_with_table,
    describe_items,
    empty_reverb_root,
    first_number,
    neighbours,
    number_of,
    read_table,
    stored_numbers,
    wrong_items,
)
from tfagents_system.services.replay_limits import ReplayLimits

FIRST = [first_number(stream) for stream in range(5)]
STORED = StoredNumbers(
    np.array([[FIRST[1] + 3, FIRST[1] + 5], [FIRST[1] + 8, FIRST[1] + 8],
              [FIRST[3], FIRST[3] + 9]]), is_full=False)  # fmt: skip
FULL = StoredNumbers(STORED.ranges, is_full=True)
NO_ITEMS = {"is_full": False, "ranges": [], "removed": [], "discarded": []}


def test_every_priority_is_a_number_of_its_own():
    last = first_number(2**21) - 2
    assert float(last) - float(last - 1) == 1  # exact in a float64
    assert FIRST[2] == FIRST[1] + NUMBERS_PER_STREAM


def test_a_number_is_stored_whatever_its_stream():
    numbers = np.array([1, FIRST[1], FIRST[1] + 3, FIRST[1] + 6, FIRST[2], FIRST[3] + 9, FIRST[4]])
    assert STORED.contains(numbers).tolist() == [False, False, True, False, False, True, False]


def test_a_stream_ends_with_its_highest_number():
    assert [STORED.last(stream) for stream in range(5)] == [0, FIRST[1] + 8, 0, FIRST[3] + 9, 0]


def test_a_full_table_has_removed_what_is_before_the_lowest_number_of_a_worker():
    streams = ([0], [1], [2], [3], [1, 3], [2, 3])
    first = [0, FIRST[1] + 3, 0, FIRST[3], FIRST[1] + 3, FIRST[3]]
    assert [FULL.first_left(of_a_worker) for of_a_worker in streams] == first
    assert [STORED.first_left(of_a_worker) for of_a_worker in streams] == [0] * 6


def test_what_a_full_table_has_removed_is_remembered_for_good():
    def contents(*of_streams, is_full=True, removed=()):
        description = {"is_full": is_full, "ranges": ranges(*of_streams), "removed": removed}
        return stored_numbers(description)

    older = contents((1, 0, 9), (2, 0, 4), (2, 6, 9), (3, 0, 9))
    assert contents((2, 0, 9), is_full=False).removed_after(older) == {}
    newest = contents((2, 8, 9), (3, 0, 40))
    removed = newest.removed_after(older)
    assert removed == {1: FIRST[1] + 9, 2: FIRST[2] + 7}
    # A larger table, which is not full, has lost nothing more, and forgets nothing.
    larger = contents((3, 0, 60), is_full=False, removed=sorted(removed.values()))
    assert larger.removed == larger.removed_after(newest) | removed == removed
    assert [larger.first_left([k]) for k in (1, 2, 3)] == [FIRST[1] + 10, FIRST[2] + 8, 0]
    assert larger.first_left([1, 2]) == FIRST[2] + 8  # the later start of a worker tells more


def test_an_older_versions_manifest_is_read():
    assert stored_numbers({"is_full": True, "ranges": ranges((1, 0, 9))}).removed == {}


def test_nothing_is_stored_in_an_empty_table():
    empty = stored_numbers({"ranges": [], "is_full": True})
    assert not empty.contains(np.array([0, 1, FIRST[1]])).any()
    assert empty.last(1) == empty.first_left([0, 1]) == 0


def save(folder, num_steps_by_stream, limits=UNLIMITED, layout=SINGLE):
    """Returns a checkpoint of a server that streams have filled in turns, and the codec."""
    environment = EpisodeStepEnv(ends=[(1000, 0.0)])
    codec = codec_of(environment)
    with serving(folder / "before", limits) as replay:
        time_step = environment.reset()
        for stream, num_steps in num_steps_by_stream:
            journal = Journal(folder / "journals", Stream(0, stream), codec.columns, layout.rows,
                              10**6, UNRIVALLED)  # fmt: skip
            adder = Adder(replay.client(), codec, layout, journal)
            for _ in range(num_steps):
                action = np.zeros(1, np.float32)
                next_time_step = environment.step(action)
                adder.add(time_step, action, next_time_step)
                time_step = next_time_step
            adder.send()
            assert adder.is_confirmed(timeout_secs=60)
        return pathlib.Path(replay.client().checkpoint()), codec


def ranges(*of_streams):
    """Returns ranges of (stream, place of the first row, place of the last), places from 0."""
    return [[FIRST[stream] + first, FIRST[stream] + last] for stream, first, last in of_streams]


def test_a_checkpoint_tells_the_numbers_of_all_streams(tmp_path):
    checkpoint, _ = save(tmp_path, [(1, 5), (3, 4)])
    description = describe_items(checkpoint, EXPERIENCE_TABLE)
    assert description == {
        "is_full": False,
        "ranges": ranges((1, 1, 5), (3, 1, 4)),
        "removed": [],
        "discarded": [],
    }
    assert wrong_items(checkpoint, EXPERIENCE_TABLE) == ([], [], [])


def test_items_without_a_number_are_not_described_and_no_repetitions(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        environment = EpisodeStepEnv(ends=[(5, 0.0)])
        adder = Adder(replay.client(), codec_of(environment))
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 5, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        checkpoint = pathlib.Path(replay.client().checkpoint())
    assert describe_items(checkpoint, EXPERIENCE_TABLE) == NO_ITEMS
    assert wrong_items(checkpoint, EXPERIENCE_TABLE) == ([], [], [])


def test_an_item_of_a_block_stands_for_its_rows(tmp_path):
    checkpoint, _ = save(tmp_path, [(1, 11), (3, 4)], layout=ItemLayout(4))
    description = describe_items(checkpoint, EXPERIENCE_TABLE, stride=5)
    assert description == {"is_full": False, "ranges": ranges((1, 0, 2 * 5 - 1), (3, 0, 5 - 1)),
                           "removed": [], "discarded": []}  # fmt: skip


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
    checkpoint, _ = save(tmp_path, [(1, 5), (3, 4)], limits)
    description = describe_items(checkpoint, EXPERIENCE_TABLE)
    assert description == {
        "is_full": True,
        "ranges": ranges((1, 4, 5), (3, 1, 4)),
        "removed": [],
        "discarded": [],
    }


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
        assert experience_stats(replay.client(), timeout_secs=60) == (9 - first, 9)
    assert read_table(checkpoint, EXPERIENCE_TABLE).max_size == UNLIMITED.capacity


@pytest.mark.parametrize(
    "priority, number",
    [(0.0, 0), (2.0**53 - 1, 2**53 - 1), (2.0**53, None), (1e300, None), (-1.0, None),
     (1.5, None), (np.nan, None), (np.inf, None)],
)  # fmt: skip
def test_a_priority_is_a_number_or_not(priority, number):
    assert number_of(priority) == number


def test_what_is_discarded_is_missed_by_nobody_and_found_when_it_comes_back(tmp_path):
    checkpoint, _ = save(tmp_path, [(1, 5), (3, 4)])
    numbers = {FIRST[1] + 2, FIRST[3] + 1, FIRST[4]}
    description = describe_items(checkpoint, EXPERIENCE_TABLE, discarded=numbers)
    stored = stored_numbers(description)
    assert stored.discarded == numbers and stored.contains(np.array([FIRST[4], FIRST[2]]))[0]
    assert not stored.contains(np.array([FIRST[2]]))[0] and stored.last(4) == 0
    repeated, unnumbered, discarded = wrong_items(checkpoint, EXPERIENCE_TABLE, numbers)
    assert (repeated, unnumbered, len(discarded)) == ([], [], 2)
    key = discarded[0] if discarded[0] < 2**63 else discarded[0] - 2**64  # as TensorFlow has it
    near = neighbours(checkpoint, EXPERIENCE_TABLE, {key}, distance=2)
    assert sorted(near.values()) == [FIRST[1] + 1, FIRST[1] + 2, FIRST[1] + 3]
    assert near[key] == FIRST[1] + 2
