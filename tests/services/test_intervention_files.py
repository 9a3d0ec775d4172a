"""Samples with an intervention: what is kept, what is read, and when."""

import collections

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from replay_fakes import EpisodeStepEnv, all_items, codec_of, serving
from small_disk import small_disk

from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.intervention_files import InterventionFile, InterventionReader
from tfagents_system.services.item_recorder import ItemRecorder
from tfagents_system.services.journal import Stream
from tfagents_system.services.replay import experience_stats
from tfagents_system.services.slot_rows import Row

CODEC = codec_of(EpisodeStepEnv())
GAMMA = 0.9
LAYOUTS = [
    SINGLE,
    ItemLayout(4),
    ItemLayout(4, n_step=3),
    ItemLayout(3, is_sequence=True),
    ItemLayout(4, is_sequence=True, is_segment=True, burn_in=1),
]


def file_of(folder, layout=SINGLE, stream=(0, 1), **arguments):
    return InterventionFile(folder, Stream(*stream), CODEC, layout, **arguments)


def reader_of(folder, layout=SINGLE, **arguments):
    return InterventionReader(folder, SampleReader(CODEC, layout, GAMMA), **arguments)


def windows_of(reader, layout):
    """The new samples, [window, size] each, as bytes, and how often each is there."""
    found = collections.Counter()
    for (column,), starts in reader.new_samples():
        found.update(column[start : start + layout.window].tobytes() for start in starts)
    return found


def samples_with(items, layout, interventions):
    """The samples of items in which an env step (episode, step) was an intervention."""
    sample_reader, found = SampleReader(CODEC, layout, GAMMA), collections.Counter()
    for (column,) in items:
        are_samples = sample_reader.are_samples([tf.constant(column)[np.newaxis]]).numpy()[0]
        for start in np.flatnonzero(are_samples):
            window = column[start : start + layout.window]
            steps = CODEC.unpack([window])
            num_actions = layout.length if layout.is_sequence else 1
            acted = [
                (int(episode), int(step))
                for (episode, step), step_type in zip(
                    steps.observation[1:][:num_actions], steps.step_type[1:], strict=False
                )
                if step_type == 1  # MID
            ]
            if interventions.intersection(acted):
                found[window.tobytes()] += 1
    return found


class Stepper:
    """Steps an environment for a slot of an adder; a person acts as often as `rng` says."""

    def __init__(self, adder, ends, rng, slot=0):
        self._adder, self._rng, self._slot = adder, rng, slot
        self._environment = EpisodeStepEnv(ends)
        self._environment._episode = 100 * slot - 1  # so that slots differ
        self._policy = RandomPolicy(self._environment.action_spec(), seed=slot)
        self._time_step = None
        self.interventions = set()

    def step(self, share=0.2):
        if self._time_step is None or self._time_step.is_last():
            if self._time_step is not None:
                self._adder.end_episode(self._slot)
            self._time_step = self._environment.reset()
        is_intervention = self._rng.random() < share
        action, _ = self._policy.action(self._time_step, ())
        after = self._environment.step(action)
        if is_intervention:
            self.interventions.add(tuple(map(int, after.observation)))
        assert self._adder.add(
            self._time_step, action, after, slot=self._slot, is_intervention=is_intervention
        )
        self._time_step = after


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@hypothesis.given(
    ends=st.lists(
        st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0.0, 1.0])), min_size=1),
        min_size=1,
        max_size=3,
    ),
    burst_length=st.integers(1, 20),
    share=st.sampled_from([0.05, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
@hypothesis.settings(max_examples=8, deadline=None)
def test_the_samples_with_an_intervention_are_kept_once_and_no_others(
    tmp_path_factory, layout, ends, burst_length, share, seed
):
    """Slots step in any order, bursts go out and the learner looks at random times."""
    folder, rng = tmp_path_factory.mktemp("kept"), np.random.default_rng(seed)
    recorder, reader = ItemRecorder(), reader_of(folder, layout)
    adder = Adder(recorder, CODEC, layout, burst_length=burst_length, num_slots=len(ends),
                  interventions=file_of(folder, layout))  # fmt: skip
    steppers = [Stepper(adder, each, rng, slot) for slot, each in enumerate(ends)]
    found = collections.Counter()
    for slot in rng.integers(0, len(ends), 150):
        steppers[slot].step(share)
        if rng.random() < 0.1:
            adder.send()
        if rng.random() < 0.1:
            found += windows_of(reader, layout)
    for slot in range(len(ends)):
        adder.end_episode(slot)
    while adder.send():
        pass
    found += windows_of(reader, layout)
    interventions = set.union(*(stepper.interventions for stepper in steppers))
    assert found == samples_with(recorder.items, layout, interventions)
    assert windows_of(reader_of(folder, layout), layout) == found  # all at once
    if share == 1:
        assert sum(found.values()) > 20


def test_the_replay_buffer_gets_all_env_steps_and_counts_each_once(tmp_path):
    rng = np.random.default_rng(1)
    with serving(tmp_path / "reverb") as replay:
        adder = Adder(replay.client(), CODEC, interventions=file_of(tmp_path / "kept"))
        stepper = Stepper(adder, [(5, 0.0)], rng)
        for _ in range(40):
            stepper.step()
        adder.end_episode()
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        assert experience_stats(replay.client(), timeout_secs=60) == (40, 40)
        stored = {tuple(map(int, t.next_observation)) for t in all_items(replay.client(), CODEC)}
    assert len(stored) == 40 > len(stepper.interventions) > 0
    ((column,), starts), = reader_of(tmp_path / "kept").new_samples()  # fmt: skip
    kept = CODEC.unpack([column[starts + 1]]).observation.astype(int).tolist()
    assert sorted(map(tuple, kept)) == sorted(stepper.interventions)


def keep(file, *numbers, flags=None):
    """Appends transitions of which each has two rows of its own: SINGLE items, by number."""
    zeros = CODEC.pack(CODEC.zeros())[0]
    for number in numbers:
        is_intervention = flags is None or number in flags
        file.append([Row([zeros + number], False), Row([zeros - number], True, is_intervention)])


def numbers_of(reader):
    """The numbers of the new samples of `keep`."""
    found = []
    for (column,), starts in reader.new_samples():
        np.testing.assert_array_equal(column[starts], -column[starts + 1])
        found += column[starts, 0].astype(int).tolist()
    return found


def test_without_an_intervention_there_is_no_file(tmp_path):
    file = file_of(tmp_path / "kept")
    keep(file, 1, 2, 3, flags=[])
    assert not (tmp_path / "kept").exists()
    assert numbers_of(reader_of(tmp_path / "kept")) == []


def test_files_of_all_streams_are_read_and_those_of_other_layouts_are_not(tmp_path):
    reader = reader_of(tmp_path)
    keep(file_of(tmp_path, stream=(0, 1)), 1, 2)
    keep(file_of(tmp_path, ItemLayout(3, is_sequence=True), stream=(0, 2)), 7, 8)
    assert numbers_of(reader) == [1, 2]
    keep(file_of(tmp_path, stream=(3, 4)), 3)
    assert numbers_of(reader) == [3]
    assert len(list(tmp_path.iterdir())) == 3
    assert numbers_of(reader_of(tmp_path)) == [1, 2, 3]


def test_a_record_that_is_not_complete_is_read_when_it_is(tmp_path):
    file = file_of(tmp_path)
    keep(file, 1, 2)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    reader = reader_of(tmp_path)
    path.write_bytes(content[:-1])
    assert numbers_of(reader) == [1]
    path.write_bytes(content)
    assert numbers_of(reader) == [2]


@pytest.mark.parametrize("record, left", [(0, [2, 3]), (3, [1, 3])])
def test_a_damaged_record_costs_its_sample_and_is_told(tmp_path, record, left):
    lines = []
    keep(file_of(tmp_path), 1, 2, 3)  # two records each
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[record * len(content) // 6 + 20] ^= 1
    path.write_bytes(content)
    assert numbers_of(reader_of(tmp_path, log=lines.append)) == left
    assert len(lines) == 1 and "1 of 6 records are damaged" in lines[0]


def test_a_full_disk_is_told_once_and_what_comes_after_it_is_kept():
    lines = []
    with small_disk(1_000_000) as disk:
        file = file_of(disk.folder / "kept", log=lines.append)
        keep(file, 1)
        disk.fill()
        keep(file, *range(2, 400))  # the file's first block has space
        assert file.num_not_kept > 0
        disk.free()
        keep(file, 999)
        assert len(lines) == 1 and "No space left" in lines[0]
        found = numbers_of(reader_of(disk.folder / "kept"))
    assert found[0] == 1 and found[-1] == 999
    assert len(found) == 1 + 398 + 1 - file.num_not_kept // 2
