"""Tests what `sac check` says of environments with goals."""

import gym
import numpy as np
import pytest
from goal_fakes import Walk
from replay_fakes import EpisodeStepEnv, TinyParams

from tfagents_system.assembly import assemble
from tfagents_system.commands.checks.goals import check_goals
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.time_left import TimeLeft


def params_with(her_copies):
    params = TinyParams({"horizon": 10})
    params.her_copies = her_copies
    return params


def of(env):
    return GymEnvironment(env, seed=1)


class NoReward(Walk):
    compute_reward = None


class OtherKeys(Walk):
    def __init__(self):
        super().__init__()
        place = self.observation_space["observation"]
        self.observation_space = gym.spaces.Dict({"goal": place, "achieved_goal": place})

    def _observe(self):
        place = np.array([self.place], np.float32)
        return {"goal": place, "achieved_goal": place}


class OtherShapes(Walk):
    def __init__(self):
        super().__init__()
        self.observation_space["desired_goal"] = gym.spaces.Box(0.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (EpisodeStepEnv(), "observations are not dicts with achieved_goal and desired_goal"),
        (of(OtherKeys()), "have no desired_goal, only achieved_goal, goal"),
        (of(OtherShapes()), "are not arrays of one shape"),
        (of(NoReward()), r"no method compute_reward\(achieved_goal, desired_goal, info\)"),
    ],
)
def test_copies_are_refused_for_an_environment_without_goals(environment, message):
    with pytest.raises(ConfigError, match=f"her_copies is 4, but .*{message}.* her_copies = 0"):
        assemble(params_with(4), environment)
    assert check_goals(environment, params_with(0)) == []


def test_the_check_names_her_copies_where_there_are_goals():
    (row,) = check_goals(of(Walk()), params_with(0))
    assert (row.what, row.verdict) == ("goals", "note") and "her_copies = 4" in row.advice
    wrapped = TimeLeft(of(Walk()), 10)
    (row,) = check_goals(wrapped, params_with(4))
    assert (row.verdict, row.value) == (
        "ok", "each transition is stored 5 times, with as many goals"
    )  # fmt: skip


@pytest.mark.parametrize(("her_copies", "verdict"), [(4, "WRONG"), (0, "note")])
def test_the_check_compares_rewards(her_copies, verdict):
    (row,) = check_goals(of(Walk(lies=True)), params_with(her_copies))
    assert row.verdict == verdict and "returned -99 for env step 1" in row.value
