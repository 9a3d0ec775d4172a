"""Agents by slot, on scripted agents: ids that come, go and pause."""

import numpy as np
import pytest
from tf_agents.trajectories import time_step as ts

from tfagents_system.environments.agent_slots import (
    MAX_STEPS_TO_MEET,
    MAX_STEPS_WITHOUT_AGENT,
    AgentSlots,
    AgentSteps,
    most_at_once,
)

FIRST, MID, LAST = 0, 1, 2


def observation(number):
    return {"vector": np.float32([number])}


def asks(number, is_first=False):
    if is_first:
        return ts.restart(observation(number))
    return ts.transition(observation(number), reward=np.float32(number))


def ends(number):
    return ts.termination(observation(number), reward=np.float32(number))


class ScriptedAgents:
    """Brings the steps of a script, and keeps the actions."""

    are_over = False

    def __init__(self, *script):
        self.script = list(script)
        self.actions = []

    def idle_action(self, observation):
        return "idle"

    def reset(self):
        self.actions.append("reset")
        return self.script.pop(0)

    def step(self, actions):
        self.actions.append(actions)
        return self.script.pop(0)


def shown(found):
    return {
        slot: (int(step.step_type), float(step.observation["vector"][0]))
        for slot, step in found.items()
    }


def test_an_agent_that_ends_is_followed_by_its_next_episode():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({2: asks(21), 3: asks(30, True)}, {1: ends(11)}),
        AgentSteps({2: asks(22), 3: asks(31)}, {}),
    )
    slots = AgentSlots(agents)
    assert shown(slots.reset([0, 1])) == {0: (FIRST, 10), 1: (FIRST, 20)}
    assert shown(slots.step({0: "a", 1: "b"})) == {0: (LAST, 11), 1: (MID, 21)}
    assert shown(slots.reset([0])) == {0: (FIRST, 30)}
    assert shown(slots.step({0: "c", 1: "d"})) == {0: (MID, 31), 1: (MID, 22)}
    assert agents.actions == ["reset", {1: "a", 2: "b"}, {2: "d", 3: "c"}]


def test_an_agent_that_does_not_ask_gets_no_action():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({2: asks(21)}, {}),
        AgentSteps({1: asks(12), 2: asks(22)}, {}),
    )
    slots = AgentSlots(agents)
    slots.reset([0, 1])
    assert shown(slots.step({0: "a", 1: "b"})) == {1: (MID, 21)}
    assert shown(slots.step({1: "c"})) == {0: (MID, 12), 1: (MID, 22)}
    assert agents.actions[2] == {2: "c"}


def test_a_slot_waits_until_an_agent_begins():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True)}, {}),
        AgentSteps({}, {1: ends(11)}),
        AgentSteps({5: asks(50, True)}, {}),
    )
    slots = AgentSlots(agents)
    slots.reset([0])
    slots.step({0: "a"})
    assert slots.reset([0]) == {}
    assert shown(slots.step({})) == {0: (FIRST, 50)}


def test_an_episode_that_is_cut_while_others_have_theirs_goes_on_as_another_one():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({1: asks(11), 2: asks(21)}, {}),
        AgentSteps({1: asks(12), 2: asks(22)}, {}),
    )
    slots = AgentSlots(agents)
    slots.reset([0, 1])
    slots.step({0: "a", 1: "b"})
    assert shown(slots.reset([0])) == {0: (FIRST, 11)}
    assert shown(slots.step({0: "c", 1: "d"})) == {0: (MID, 12), 1: (MID, 22)}
    assert agents.actions.count("reset") == 1


def test_if_no_other_slot_has_an_episode_a_cut_resets_the_simulator():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({1: asks(11)}, {2: ends(21)}),
        AgentSteps({3: asks(30, True), 4: asks(40, True)}, {}),
        AgentSteps({}, {}),
        AgentSteps({5: asks(50, True), 6: asks(60, True)}, {}),
    )
    slots = AgentSlots(agents)
    slots.reset([0, 1])
    slots.step({0: "a", 1: "b"})
    assert slots.reset([1]) == {}  # no agent is left for it
    assert shown(slots.reset([0])) == {0: (FIRST, 30), 1: (FIRST, 40)}
    slots.step({0: "c", 1: "d"})
    assert shown(slots.reset([0, 1])) == {0: (FIRST, 50), 1: (FIRST, 60)}  # both act
    assert agents.actions == ["reset", {1: "a", 2: "b"}, "reset", {3: "c", 4: "d"}, "reset"]


def test_a_slot_that_waits_and_begins_once_more_gets_one_agent():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({}, {1: ends(11), 2: ends(21)}),
        AgentSteps({3: asks(30, True), 4: asks(40, True)}, {}),
        AgentSteps({3: asks(31), 4: asks(41)}, {}),
    )
    slots = AgentSlots(agents)
    slots.reset([0, 1])
    slots.step({0: "a", 1: "b"})
    assert slots.reset([0]) == {}
    assert slots.reset([0, 1]) == {}
    assert shown(slots.step({})) == {0: (FIRST, 30), 1: (FIRST, 40)}
    assert shown(slots.step({0: "c", 1: "d"})) == {0: (MID, 31), 1: (MID, 41)}


def test_a_slot_whose_agent_asks_later_than_the_first_counts():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({1: asks(11), 2: asks(21), 3: asks(30, True)}, {}),
        AgentSteps({1: asks(12), 2: asks(22), 3: asks(31)}, {}),
    )
    slots = AgentSlots(agents)
    assert slots.reset([0, 1, 2]).keys() == {0, 1}
    assert shown(slots.step({0: "a", 1: "b"}))[2] == (FIRST, 30)
    # The episodes of two are cut, and the third one's goes on.
    assert shown(slots.reset([0, 1])) == {0: (FIRST, 11), 1: (FIRST, 21)}
    assert shown(slots.step({0: "c", 1: "d", 2: "e"})) == {
        0: (MID, 12), 1: (MID, 22), 2: (MID, 31),
    }  # fmt: skip
    assert agents.actions.count("reset") == 1


def test_agents_are_counted_until_one_asks_again():
    first = AgentSteps({1: asks(10, True)}, {})
    agents = ScriptedAgents(
        AgentSteps({2: asks(20, True)}, {1: ends(11)}),
        AgentSteps({3: asks(30, True)}, {}),  # the next episode of agent 1
        AgentSteps({4: asks(40, True)}, {}),
        AgentSteps({2: asks(21), 5: asks(50, True)}, {}),
    )
    assert most_at_once(agents, first) == 4  # 2, 3, 4 and 5
    assert agents.actions == [{1: "idle"}, {2: "idle"}, {3: "idle"}, {4: "idle"}]


def test_agents_whose_episodes_have_one_step_are_counted():
    steps = [
        AgentSteps({n: asks(0, True)}, {n - 1: ends(0)} if n else {})
        for n in range(MAX_STEPS_TO_MEET + 1)
    ]
    assert most_at_once(ScriptedAgents(*steps[1:]), steps[0]) == 1


def test_agents_that_have_all_ended_by_themselves_need_no_reset():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True)}, {}), AgentSteps({2: asks(20, True)}, {1: ends(11)})
    )
    slots = AgentSlots(agents)
    slots.reset([0])
    slots.step({0: "a"})
    assert shown(slots.reset([0])) == {0: (FIRST, 20)}
    assert agents.actions.count("reset") == 1


def test_agents_beyond_the_slots_stand_still_until_one_is_free():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({2: asks(21)}, {1: ends(11)}),
        AgentSteps({2: asks(22)}, {}),
    )
    slots = AgentSlots(agents)
    assert shown(slots.reset([0])) == {0: (FIRST, 10)}
    slots.step({0: "a"})
    assert agents.actions[1:] == [{1: "a", 2: "idle"}]
    assert shown(slots.reset([0])) == {0: (FIRST, 21)}  # in the middle of its episode
    assert shown(slots.step({0: "b"})) == {0: (MID, 22)}


def test_cut_before_the_agent_asks_again_and_ended_at_once():
    agents = ScriptedAgents(
        AgentSteps({1: asks(10, True), 2: asks(20, True)}, {}),
        AgentSteps({2: asks(21)}, {}),
        AgentSteps({2: asks(22), 3: asks(30, True)}, {1: ends(11)}),
    )
    slots = AgentSlots(agents)
    slots.reset([0, 1])
    slots.step({0: "a", 1: "b"})
    assert slots.reset([0]) == {}  # its agent acts, and the slot's episode is cut
    assert shown(slots.step({1: "c"})) == {0: (FIRST, 30), 1: (MID, 22)}


def test_a_simulator_that_has_lost_its_agents_is_an_error_in_words():
    nobody = AgentSteps({}, {})
    waits = [nobody] * (MAX_STEPS_WITHOUT_AGENT - 1)
    first, comes = AgentSteps({1: asks(10, True)}, {}), AgentSteps({1: asks(11)}, {})
    slots = AgentSlots(ScriptedAgents(first, *waits, comes, *waits, nobody))
    slots.reset([0])
    for _ in range(MAX_STEPS_WITHOUT_AGENT):  # the last of which has the agent
        found = slots.step({})
    assert shown(found) == {0: (MID, 11)}
    for _ in range(MAX_STEPS_WITHOUT_AGENT - 1):
        slots.step({})
    with pytest.raises(RuntimeError, match="No agent has asked for an action within 10000 steps."):
        slots.step({})
