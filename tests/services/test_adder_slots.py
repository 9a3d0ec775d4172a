"""Several slots share an adder."""

import pathlib

import hypothesis
import numpy as np
import pytest
from fakes import UNRIVALLED
from hypothesis import strategies as st
from replay_fakes import EpisodeStepEnv, all_items, codec_of, serving

from tfagents_system.core.process.ports import free_port
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import ROWS_PER_REPEATED, Adder
from tfagents_system.services.item_recorder import ItemRecorder
from tfagents_system.services.journal import Checkpoints, Journal, Stream
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.replay_files import describe_items, stored_numbers

LAYOUTS = [
    SINGLE,
    ItemLayout(4),
    ItemLayout(4, n_step=3),
    ItemLayout(3, is_sequence=True),
    ItemLayout(4, is_sequence=True, is_segment=True, burn_in=1),
]


class Slot:
    """An environment whose observations name the slot, and what steps it for an adder."""

    def __init__(self, number, ends):
        self._number = number
        self._environment = EpisodeStepEnv(ends)
        self._environment._episode = 100 * number - 1  # so that slots differ
        self._policy = RandomPolicy(self._environment.action_spec(), seed=number)
        self._time_step = None

    def step(self, adder, slot):
        """Takes an env step, or ends an episode."""
        if self._time_step is None or self._time_step.is_last():
            if self._time_step is not None:
                adder.end_episode(slot)
            self._time_step = self._environment.reset()
        action, _ = self._policy.action(self._time_step, ())
        next_time_step = self._environment.step(action)
        assert adder.add(self._time_step, action, next_time_step, slot=slot)
        self._time_step = next_time_step


def send_all(adder):
    while adder.send():
        pass


def sorted_items(recorders):
    return sorted(b"".join(map(bytes, item)) for recorder in recorders for item in recorder.items)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@hypothesis.given(
    ends=st.lists(
        st.lists(st.tuples(st.integers(1, 90), st.sampled_from([0.0, 1.0])), min_size=1),
        min_size=2,
        max_size=4,
    ),
    burst_length=st.integers(1, 20),
    seed=st.integers(0, 99),
)
@hypothesis.settings(max_examples=8, deadline=None)
def test_the_items_of_slots_are_those_of_each_alone(layout, ends, burst_length, seed):
    """Slots step in any order, end at random times, and bursts go out at random times."""
    rng, codec = np.random.default_rng(seed), codec_of(EpisodeStepEnv())
    shared, lone = ItemRecorder(), [ItemRecorder() for _ in ends]
    adder = Adder(shared, codec, layout, burst_length=burst_length, num_slots=len(ends))
    adders = [Adder(recorder, codec, layout) for recorder in lone]
    slots, copies = ([Slot(*each) for each in enumerate(ends)] for _ in range(2))
    for slot in rng.integers(0, len(ends), 200):
        slots[slot].step(adder, slot)
        copies[slot].step(adders[slot], 0)
        if rng.random() < 0.1:
            adder.send()
    for slot in range(len(ends)):
        adder.end_episode(slot)
        adders[slot].end_episode()
    for each in (adder, *adders):
        send_all(each)
    assert sorted_items([shared]) == sorted_items(lone)
    assert len(shared.items) > 20


def test_few_rows_of_long_episodes_are_sent_twice():
    layout, appended = ItemLayout(20, is_sequence=True), []
    recorder = ItemRecorder()
    recorder.Append = lambda columns: appended.append(columns) or columns
    adder = Adder(recorder, codec_of(EpisodeStepEnv()), layout, num_slots=2)
    slots = [Slot(0, [(5000, 0.0)]), Slot(1, [(5000, 0.0)])]
    for _ in range(5000):
        for number, slot in enumerate(slots):
            slot.step(adder, number)
    for number in range(2):
        adder.end_episode(number)
    send_all(adder)
    assert len(recorder.items) == 2 * 5000
    piece = ROWS_PER_REPEATED * 21  # an item has 20 transitions, so 21 rows
    assert len(appended) <= 2 * (5001 + 19) * piece / (piece - 20) + 1  # with padding


def test_a_burst_of_slots_is_no_larger_than_of_one():
    appended = []
    recorder = ItemRecorder()
    recorder.Append = lambda columns: appended.append(columns) or columns
    adder = Adder(recorder, codec_of(EpisodeStepEnv()), SINGLE, burst_length=10, num_slots=2)
    slot = Slot(1, [(35, 0.0)])
    for num_steps in range(1, 36):
        slot.step(adder, 1)
        assert adder.is_burst_due == (num_steps + 1 >= 20)  # with the first row, a piece
    adder.end_episode(1)
    sizes = []
    is_left = True
    while is_left:
        before, is_left = len(appended), adder.send()
        sizes.append(len(appended) - before)
    assert sizes == [10, 10, 10, 7]  # 35 + 1 rows, and the last of the first piece again
    assert not adder.is_burst_due


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.n_step == 1], ids=str)
def test_what_a_crashed_server_had_confirmed_of_slots_is_there_again_and_once(tmp_path, layout):
    """The server is lost with all that came after its checkpoint, and with it the worker."""
    codec, port = codec_of(EpisodeStepEnv()), free_port()
    streams = iter([Stream(7, 1), Stream(7, 2), Stream(7, 5)])
    slots = [Slot(1, [(5, 0.0), (2, 0.0), (9, 1.0)]), Slot(2, [(60, 0.0)]), Slot(3, [(3, 0.0)])]

    def make_adder(replay):
        journal = Journal(
            tmp_path / "journals", next(streams), codec.columns, layout.rows, 10**6, UNRIVALLED
        )
        return Adder(replay.client(), codec, layout, journal, num_slots=len(slots), burst_length=9)

    def collect(adder, num_ticks):
        for _ in range(num_ticks):
            for number, slot in enumerate(slots):
                slot.step(adder, number)
            while adder.is_burst_due:
                adder.send()
                assert adder.is_confirmed(timeout_secs=60)
        for number, slot in enumerate(slots):
            adder.end_episode(number)
            slot._time_step = None
        send_all(adder)
        assert adder.is_confirmed(timeout_secs=60)

    def checkpoint(replay):
        path = pathlib.Path(replay.client().checkpoint())
        return path, stored_numbers(describe_items(path, EXPERIENCE_TABLE, layout.row_stride))

    def items_of(replay):
        return [t.observation.tolist() for t in all_items(replay.client(), codec, layout)]

    with serving(tmp_path / "first", port=port) as replay:
        collect(make_adder(replay), num_ticks=40)
        restore_from, older = checkpoint(replay)
        collect(make_adder(replay), num_ticks=70)
        expected = items_of(replay)
    with serving(tmp_path / "second", port=port, restore_from=restore_from) as replay:
        num_lost = len(expected) - len(items_of(replay))
        adder = make_adder(replay)
        _, newest = checkpoint(replay)
        slots[0].step(adder, 0)  # within episodes
        slots[1].step(adder, 1)
        for _ in adder.send_lost(Checkpoints(newest, older, {Stream(7, 1), Stream(7, 2)})):
            assert adder.is_confirmed(timeout_secs=60)
        assert adder.num_recovered == num_lost > 0
        assert sorted(items_of(replay)) == sorted(expected)
        collect(adder, num_ticks=20)
        assert list(adder.send_lost(Checkpoints(checkpoint(replay)[1], newest, set()))) == []
        assert len(items_of(replay)) > len(expected)
