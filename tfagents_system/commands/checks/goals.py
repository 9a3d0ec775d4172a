"""The probe of `sac check` for environments with goals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.commands.checks.rows import Row, explained
from tfagents_system.core.settings.params import Params
from tfagents_system.environments.goals import (
    ACHIEVED,
    DESIRED,
    GoalJudge,
    check_rewards_agree,
    missing_for_goals,
)
from tfagents_system.policies.acting import RandomPolicy

NUM_STEPS = 10
SEED = 1


def check_goals(environment: py_environment.PyEnvironment, params: Params) -> list[Row]:
    """Returns a row on whether `her_copies` can be used, after a trial; none without goals."""
    if missing_for_goals(environment):
        return []
    try:
        _judge_own_goals(environment)
    except Exception as error:
        if params.her_copies:
            return [Row("goals", "WRONG", explained(error), "Workers would end.")]
        return [Row("goals", "note", explained(error), "her_copies cannot be used.")]
    if params.her_copies:
        value = f"each transition is stored {1 + params.her_copies} times, with as many goals"
        return [Row("goals", "ok", value)]
    value = "achieved_goal, desired_goal and compute_reward are there"
    advice = ("If the reward is sparse, her_copies = 4 stores each transition with four achieved "
              "goals, too: docs/sparse_rewards.md.")  # fmt: skip
    return [Row("goals", "note", value, advice)]


def _judge_own_goals(environment: py_environment.PyEnvironment) -> None:
    """Raises ConfigError if the rewards computed for an episode differ from those it had."""
    observations, rewards, infos = [], [], []

    def observe(_: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any) -> bool:
        observations.append(next_time_step.observation)
        rewards.append(next_time_step.reward)
        info = environment.get_info()
        infos.append(info if isinstance(info, Mapping) else {})
        return True

    run_episode(environment, RandomPolicy(environment.action_spec(), SEED), NUM_STEPS, observe)
    achieved, desired = (
        np.stack([observation[name] for observation in observations])
        for name in (ACHIEVED, DESIRED)
    )
    judgement = GoalJudge().judge(environment, achieved, desired, infos)
    check_rewards_agree(np.array(rewards, np.float32), judgement.rewards)
