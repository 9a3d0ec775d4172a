"""The slots of several simulators in one worker."""

import pytest
from fakes import FakeClock
from replay_fakes import SleepingWatchdog
from slot_fakes import SlotEnv
from tf_agents.environments import wrappers

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.side_by_side import SideBySide
from tfagents_system.collection.slot_environments import JoinedSlots, SimulatorSlots, num_slots_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments.partial_observation import FirstObservationOnly
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.policies.acting import RandomPolicy


def replaceable(*environments):
    """Replaces each that fails by the next one."""
    left = list(environments)
    return ReplaceableEnvironment(left.pop(0), lambda _: left.pop(0), SleepingWatchdog())


def run(simulators, num_ticks, horizon=20):
    """Returns (slot, length or "failure") of each end."""
    slots = JoinedSlots([SimulatorSlots(simulator) for simulator in simulators])
    numbers = [InfoNumbers([]) for _ in range(slots.num_slots)]
    episodes = SideBySide(slots, horizon, lambda *_: True, PhaseTimer("", FakeClock()), numbers)
    policy, ends = RandomPolicy(SlotEnv([[1]]).action_spec(), 0), []
    for _ in range(num_ticks):
        states = {slot: {} for slot in episodes.idle_slots}
        for slot, end in [*episodes.begin(policy, states), *episodes.tick(policy)]:
            is_failure = isinstance(end, EnvironmentFailure)
            ends.append((slot, "failure" if is_failure else end.length))
    return ends


def test_each_slot_has_the_episodes_of_its_simulator():
    first, second = SlotEnv([[2], [3]]), SlotEnv([[6]])
    ends = run([replaceable(first), replaceable(second)], 6)
    assert sorted(ends) == [(0, 2)] * 3 + [(1, 3)] * 2 + [(2, 6)]
    assert second.tape == ["reset"] + [(0,)] * 6


def test_a_failure_ends_the_episodes_of_its_own_simulator_only():
    first = replaceable(SlotEnv([[9], [9]], fails_at=3), SlotEnv([[4], [4]]))
    ends = run([first, replaceable(SlotEnv([[6], [7]]))], 7)
    assert ends[:2] == [(0, "failure"), (1, "failure")]
    assert sorted(ends[2:]) == [(0, 4), (1, 4), (2, 6), (3, 7)]


def test_a_simulator_without_agents_for_a_while_is_stepped_while_others_act():
    late = SlotEnv([[0]])  # it never gets one
    ends = run([replaceable(late), replaceable(SlotEnv([[2]]))], 4)
    assert ends == [(1, 2), (1, 2)]
    assert late.tape == ["reset", (), (), (), ()]


class Renamed(wrappers.PyEnvironmentBaseWrapper):
    """Changes no time step."""

    def set_state(self, state):
        self._env.set_state({"mass": state["weight"]})


def test_a_wrapper_that_would_not_see_the_steps_of_several_slots_is_refused():
    several = SlotEnv([[2], [3]])
    assert num_slots_of(several) == num_slots_of(Renamed(several)) == 2
    assert num_slots_of(FirstObservationOnly(SlotEnv([[2]]), [0])) == 1
    for wrapped in (
        FirstObservationOnly(several, [0]),
        Renamed(FirstObservationOnly(several, [0])),
    ):
        with pytest.raises(
            ConfigError, match="a FirstObservationOnly around .* with 2 env.* agents"
        ):
            num_slots_of(wrapped)
