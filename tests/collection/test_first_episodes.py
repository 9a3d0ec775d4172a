"""Evaluations count the first episode of each slot of a simulator."""

import numpy as np
import pytest
from replay_fakes import SleepingWatchdog
from slot_fakes import SlotEnv

from tfagents_system.collection.first_episodes import run_first_episodes
from tfagents_system.collection.slot_environments import SimulatorSlots
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.policies.acting import RandomPolicy


def run(environment, num_episodes, horizon=20, goes_on=lambda: True, log_info=()):
    """Returns the episodes, and the slots of the env steps that counted."""
    seen = []

    def observe(slot, time_step, action, next_time_step):
        assert not time_step.is_last() and not next_time_step.is_first()
        seen.append(slot)

    replaceable = ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())
    episodes = run_first_episodes(
        SimulatorSlots(replaceable), RandomPolicy(environment.action_spec(), 0), horizon,
        num_episodes, observe, goes_on, log_info,
    )  # fmt: skip
    return episodes, seen


def test_the_first_episode_of_each_slot_counts_however_many_short_ones_there_are():
    environment = SlotEnv([[2], [10], [3, 1]])
    episodes, seen = run(environment, 3)
    # In ten steps slot 0 ends 5 episodes and slot 2 ends 8: the mean of all would be near 1.5.
    assert [episode.length for episode in episodes] == [2, 10, 3]
    assert np.mean([episode.episode_return for episode in episodes]) == (2 + 10 + 3) / 3
    assert [seen.count(slot) for slot in range(3)] == [2, 10, 3]


def test_all_slots_act_until_the_last_episode_that_counts_is_over():
    environment = SlotEnv([[2], [5], [9]])
    episodes, _ = run(environment, 2)
    assert [episode.length for episode in episodes] == [2, 5]
    assert environment.tape == ["reset"] + [(0, 1, 2)] * 5


def test_each_evaluation_begins_at_the_start_of_episodes():
    environment = SlotEnv([[2], [5]])
    first, second = (run(environment, 2)[0] for _ in range(2))
    assert first == second
    assert environment.tape.count("reset") == 2


def test_the_horizon_cuts_an_episode_that_counts():
    episodes, _ = run(SlotEnv([[30], [3]]), 2, horizon=7)
    assert [(e.length, e.is_terminal) for e in episodes] == [(7, False), (3, True)]


def test_a_slot_without_an_agent_is_left_out_after_the_horizon():
    environment = SlotEnv([[2], [0]])
    episodes, _ = run(environment, 2, horizon=6)
    assert [episode.length for episode in episodes] == [2]
    assert len(environment.tape) == 1 + 6


def test_numbers_of_log_info_are_those_of_each_slot():
    episodes, _ = run(SlotEnv([[2], [4]]), 2, log_info=["speed:max"])
    assert [episode.numbers for episode in episodes] == [{"speed_max": 2}, {"speed_max": 14}]


def test_an_evaluation_that_is_stopped_has_no_episodes():
    answers = iter([True, True, True, False])
    assert run(SlotEnv([[2], [10]]), 2, goes_on=lambda: next(answers))[0] == []


def test_a_failure_of_the_simulator_is_raised():
    with pytest.raises(EnvironmentFailure, match="the build ended"):
        run(SlotEnv([[2], [10]], fails_at=4), 2)
