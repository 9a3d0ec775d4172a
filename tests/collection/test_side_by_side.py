import collections

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from fakes import CountingEnv, FakeClock, RecordingCurriculumEnv
from hypothesis import strategies as st
from replay_fakes import EpisodeStepEnv, SleepingWatchdog, codec_of

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.side_by_side import SideBySide
from tfagents_system.collection.slot_environments import EnvironmentList
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.environments.own_arrays import InvalidArrayError
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder

LAYOUTS = [
    SINGLE,
    ItemLayout(4),
    ItemLayout(8, n_step=3),
    ItemLayout(5, is_sequence=True),
    ItemLayout(6, is_sequence=True, is_segment=True, burn_in=2),
]
HORIZON = 12


class RecurrentPolicy:
    """Acts by the observation and its state, which counts the steps of an episode by tens."""

    def initial_state(self, slot=0):
        return [[np.zeros(2, np.float32)]]

    def action(self, time_step, state):
        state = [[state[0][0] + np.float32([1, 10])]]
        return np.tanh(time_step.observation[:1] / 100 + state[0][0][:1]), state

    def actions(self, slots, time_steps, states):
        pairs = [self.action(*each) for each in zip(time_steps, states, strict=True)]
        return [action for action, _ in pairs], [state for _, state in pairs]


def replaceable_of(environment):
    """Goes on with the same environment after a failure."""
    return ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())


def environment_of(slot, ends):
    environment = EpisodeStepEnv(ends)
    environment._episode = 1000 * slot - 1  # so that slots differ
    return replaceable_of(environment)


def recurrent_codec(layout):
    spec = codec_of(EpisodeStepEnv()).spec
    extras = [tf.TensorSpec([2], tf.float32)] if layout.is_sequence else ()
    return step_codec(spec.observation, spec.action, layout, extras)


def side_by_side(environments, observe=lambda *_: True, horizon=HORIZON, log_info=()):
    numbers = [InfoNumbers(log_info) for _ in environments]
    replaceable = [
        each if isinstance(each, ReplaceableEnvironment) else replaceable_of(each)
        for each in environments
    ]
    return SideBySide(
        EnvironmentList(replaceable), horizon, observe, PhaseTimer("", FakeClock()), numbers
    )


def begin(episodes, policy, state=()):
    return list(episodes.begin(policy, dict.fromkeys(episodes.idle_slots, dict(state))))


def stored(codec, layout, num_slots):
    recorder = ItemRecorder()
    return recorder, Adder(recorder, codec, layout, num_slots=num_slots, burst_length=7)


def sorted_items(recorders):
    return sorted(b"".join(map(bytes, item)) for recorder in recorders for item in recorder.items)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@hypothesis.given(
    ends=st.lists(
        st.lists(st.tuples(st.integers(1, 20), st.sampled_from([0.0, 1.0])), min_size=1),
        min_size=2,
        max_size=4,
    )
)
@hypothesis.settings(max_examples=10, deadline=None)
def test_replay_gets_what_one_environment_after_another_would_give(layout, ends):
    """Episodes end at random times, some at the horizon; the last ones are cut."""
    codec, num_ticks, slots = recurrent_codec(layout), 50, range(len(ends))
    shared, adder = stored(codec, layout, len(ends))
    tape = collections.defaultdict(list)

    def observe(slot, *step):
        assert adder.add(*step, slot)
        return True

    episodes = side_by_side([environment_of(*each) for each in enumerate(ends)], observe)
    policy = RecurrentPolicy()
    for _ in range(num_ticks):
        assert begin(episodes, policy) == []
        for slot, episode in episodes.tick(policy):
            adder.end_episode(slot)
            tape[slot].append(episode)
        if adder.is_burst_due:
            adder.send()
    assert list(episodes.running_slots) + list(episodes.idle_slots) != []
    for slot in slots:
        adder.end_episode(slot)
    while adder.send():
        pass

    recorders = []
    for slot in slots:
        recorder, alone = stored(codec, layout, 1)
        recorders.append(recorder)
        environment, num_steps, expected = environment_of(slot, ends[slot]), 0, []

        def observe_alone(*step, alone=alone):
            nonlocal num_steps
            num_steps += 1
            alone.add(*step)
            return num_steps < num_ticks

        while num_steps < num_ticks:
            expected.append(run_episode(environment, policy, HORIZON, observe_alone))
            alone.end_episode()
        while alone.send():
            pass
        # Only the last, of the single environment, is cut by its observer.
        assert [e for e in expected if e.is_complete][: len(tape[slot])] == tape[slot][
            : len(expected) - (not expected[-1].is_complete)
        ]
    assert sorted_items([shared]) == sorted_items(recorders)
    assert len(shared.items) >= 5


def test_all_slots_are_asked_together_and_episodes_end_apart():
    asked = []

    class Policy(RecurrentPolicy):
        def actions(self, slots, time_steps, states):
            asked.append(list(slots))
            return super().actions(slots, time_steps, states)

    environments = [CountingEnv(terminates_at=2), CountingEnv(truncates_at=3), CountingEnv()]
    episodes, policy = side_by_side(environments, horizon=4), Policy()
    ends = []
    for _ in range(4):
        begin(episodes, policy)
        ends.append(list(episodes.tick(policy)))
    first = Episode(1.0 + 2.0, 2, None, True, is_terminal=True)
    assert ends == [
        [],
        [(0, first)],
        [(1, Episode(1.0 + 2.0 + 3.0, 3, None, True))],
        [(0, first), (2, Episode(1.0 + 2.0 + 3.0 + 4.0, 4, None, True))],
    ]
    assert asked == [[0, 1, 2]] * 4
    assert episodes.idle_slots == [0, 2] and episodes.running_slots == [1]


class FailingEnv(RecordingCurriculumEnv):
    """Fails at its second step, once; its info tells the steps."""

    def __init__(self):
        super().__init__(terminates_at=3)
        self.num_failures = 0

    def get_info(self):
        return {"count": self._count}

    def _step(self, action):
        if self._count == 1 and not self.num_failures:
            self.num_failures += 1
            raise RuntimeError("the motor is gone")
        return super()._step(action)


def test_a_failure_ends_only_the_episode_of_its_slot():
    environments = [FailingEnv(), FailingEnv()]
    environments[0].num_failures = 1  # does not fail again
    replaceable = list(map(replaceable_of, environments))
    episodes, policy = side_by_side(replaceable, log_info=("count:max",)), RecurrentPolicy()
    ends = []
    for _ in range(6):
        assert begin(episodes, policy, {"mass": 2}) == []
        ends.append(list(episodes.tick(policy)))
    assert [[slot for slot, _ in tick] for tick in ends] == [[], [1], [0], [], [1], [0]]
    ((_, failure),) = ends[1]
    assert isinstance(failure, EnvironmentFailure) and "the motor is gone" in str(failure)
    assert replaceable[0].state == replaceable[1].state == {"mass": 2}
    for tick in (2, 4, 5):
        ((_, episode),) = ends[tick]
        assert (episode.length, episode.numbers) == (3, {"count_max": 3})


class NanEnv(CountingEnv):
    """Observes NaN at its second step, or rewards with no number."""

    def __init__(self, what):
        super().__init__()
        self._what = what

    def _step(self, action):
        time_step = super()._step(action)
        if self._count < 2:
            return time_step
        bad = {"observation": np.float32([np.nan]), "reward": None}
        return time_step._replace(**{self._what: bad[self._what]})


@pytest.mark.parametrize("what", ["observation", "reward"])
def test_what_is_not_finite_is_the_failure_of_its_slot(what):
    episodes, policy = side_by_side([CountingEnv(), NanEnv(what)]), RecurrentPolicy()
    begin(episodes, policy)
    ends = [end for _ in range(3) for end in episodes.tick(policy)]
    ((slot, failure),) = ends
    assert slot == 1 and isinstance(failure, EnvironmentFailure)
    assert f"{what} is " in str(failure)
    assert episodes.running_slots == [0] and episodes.idle_slots == [1]


class WideEnv(CountingEnv):
    """Observes a vector of 2 instead of 1 at its second step."""

    def _observation(self):
        return np.zeros(2, np.float32) if self._count == 2 else super()._observation()


class StackingPolicy(RecurrentPolicy):
    """Cannot act on observations of different shapes, nor on others than [1]."""

    def actions(self, slots, time_steps, states):
        np.stack([time_step.observation for time_step in time_steps]) @ np.ones([1, 1])
        return super().actions(slots, time_steps, states)


@pytest.mark.parametrize("wide_slots", [(1,), (0, 1)])
def test_a_shape_on_which_the_policy_cannot_act_is_the_failure_of_its_slot(wide_slots):
    environments = [WideEnv() if slot in wide_slots else CountingEnv() for slot in range(2)]
    episodes, policy = side_by_side(environments), StackingPolicy()
    begin(episodes, policy)
    ends = [end for _ in range(3) for end in episodes.tick(policy)]
    assert [slot for slot, _ in ends] == list(wide_slots)
    for _, failure in ends:
        assert isinstance(failure, EnvironmentFailure)
        assert (
            "observation has shape [2] at env step 2 of the episode; at its reset it had [1]"
            in (str(failure))
        )
        assert isinstance(failure.__cause__, InvalidArrayError)
    assert [environment._count for environment in environments] == [
        2 if slot in wide_slots else 3 for slot in range(2)
    ]


def test_an_error_of_the_policy_is_no_failure_of_an_environment():
    class BrokenPolicy(RecurrentPolicy):
        def actions(self, slots, time_steps, states):
            raise RuntimeError("no weights")

    episodes, policy = side_by_side([CountingEnv(), CountingEnv()]), BrokenPolicy()
    begin(episodes, policy)
    with pytest.raises(RuntimeError, match="no weights"):
        list(episodes.tick(policy))


def test_an_observer_ends_the_episode_of_its_slot():
    environments = [CountingEnv(), CountingEnv()]

    def observe(slot, time_step, action, next_time_step, state):
        return slot == 0 or next_time_step.observation.item() < 2

    episodes, policy = side_by_side(environments, observe), RecurrentPolicy()
    begin(episodes, policy)
    ends = [end for _ in range(2) for end in episodes.tick(policy)]
    assert ends == [(1, Episode(1.0 + 2.0, 2, None, False))]


def test_episodes_that_are_cut_begin_anew():
    environments = [CountingEnv(), CountingEnv()]
    episodes, policy = side_by_side(environments), RecurrentPolicy()
    assert not episodes.are_running
    begin(episodes, policy)
    list(episodes.tick(policy))
    assert episodes.are_running
    episodes.cut()
    assert episodes.idle_slots == [0, 1]
    begin(episodes, policy)
    list(episodes.tick(policy))
    assert [environment._count for environment in environments] == [1, 1]
