"""Copies of env steps with goals that the episode has achieved."""

import itertools

import numpy as np
import pytest
from goal_fakes import Walk
from tf_agents.trajectories import time_step as ts
from worker_fakes import replaceable

from tfagents_system.collection.goal_relabelling import GoalRelabelling, draw_goals
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.environments.time_left import TimeLeft
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.tasks.bit_flip import BitFlip


def copies_of(env, num_copies, strategy="future", num_steps=4, seed=0):
    """Returns the copies of an episode, and the goal relabelling that made them."""
    environment = replaceable(GymEnvironment(env, seed=1))
    relabelling = GoalRelabelling(num_copies, strategy, np.random.default_rng(seed), False)

    def observe(time_step, action, next_time_step, state):
        relabelling.note(time_step, action, next_time_step, environment.get_info(), True)
        return True

    policy = RandomPolicy(environment.current().action_spec(), seed)
    run_episode(environment, policy, num_steps, observe)
    return list(relabelling.copies(environment)), relabelling


def numbers_of(copy):
    """Returns (place before, place after, goal before, goal after, reward, discount)."""
    before, after = copy.time_step.observation, copy.next_time_step.observation
    goals = before["desired_goal"].item(), after["desired_goal"].item()
    places = before["observation"].item(), after["observation"].item()
    return (*places, *goals, float(copy.next_time_step.reward), float(copy.next_time_step.discount))


def test_copies_have_the_final_goal_and_its_rewards_by_hand():
    copies, _ = copies_of(Walk(), num_copies=2, strategy="final", num_steps=3)
    once = [(0, 1, 3, 3, 1 - 3, 1), (1, 2, 3, 3, 2 - 3, 1), (2, 3, 3, 3, 3 - 3, 1)]
    assert [numbers_of(copy) for copy in copies] == once + once
    assert [copy.is_last for copy in copies] == [False, False, True] * 2


def test_a_goal_of_the_future_is_achieved_at_the_step_or_later():
    copies, _ = copies_of(Walk(), num_copies=50)
    assert len(copies) == 50 * 4
    for copy in copies:
        _, after, goal, goal_after, reward, discount = numbers_of(copy)
        assert goal == goal_after and goal in range(int(after), 4 + 1)
        assert (reward, discount) == (after - goal, 1)
    for copy, following in itertools.pairwise(copies):
        is_new = numbers_of(copy)[2] != numbers_of(following)[2] or numbers_of(following)[0] == 0
        assert copy.is_last == is_new
    assert copies[-1].is_last


def test_each_goal_of_the_future_is_equally_likely_for_each_step():
    rng, num_draws = np.random.default_rng(0), 8000
    draws = np.array([draw_goals("future", 4, rng) for _ in range(num_draws)])
    shares = np.array([np.bincount(draws[:, step], minlength=4) for step in range(4)]) / num_draws
    expected = np.array([[1 / 4] * 4, [0] + [1 / 3] * 3, [0, 0, 1 / 2, 1 / 2], [0, 0, 0, 1]])
    assert shares == pytest.approx(expected, abs=0.02)
    num_goals = np.mean([len(set(draw)) for draw in draws])
    assert num_goals == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4, abs=0.03)  # as the layout expects
    layout = ItemLayout(1 + 1, num_copies=3, goals_change=True)
    expected_rows = (4 + 1) + 3 * (4 + 1 + 1 / 2 + 1 / 3 + 1 / 4)
    assert float(layout.items_per_episode(4)) == pytest.approx(expected_rows / 2, rel=1e-6)


def test_a_copy_of_the_strategy_episode_has_one_goal_of_any_step():
    draws = [draw_goals("episode", 5, np.random.default_rng(seed)) for seed in range(200)]
    assert all(len(set(draw)) == 1 for draw in draws)
    assert {int(draw[0]) for draw in draws} == set(range(5))


def test_the_goals_repeat_with_the_seed():
    runs = [[numbers_of(c) for c in copies_of(Walk(), 3, seed=seed)[0]] for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("seed", range(5))
def test_each_copy_is_what_the_environment_says_of_its_goal(seed):
    env = BitFlip(4)
    copies, _ = copies_of(env, num_copies=4, seed=seed)
    ends = 0
    for copy in copies:
        before, after = copy.time_step.observation, copy.next_time_step.observation
        assert np.array_equal(before["desired_goal"], after["desired_goal"])
        flipped = before["observation"].copy()
        flipped[copy.action] = 1 - flipped[copy.action]
        assert np.array_equal(flipped, after["achieved_goal"])
        is_reached = np.array_equal(after["achieved_goal"], after["desired_goal"])
        assert copy.next_time_step.reward == env.compute_reward(
            after["achieved_goal"], after["desired_goal"], {}
        ) == (0 if is_reached else -1)  # fmt: skip
        assert copy.next_time_step.discount == (0 if is_reached else 1)
        ends += is_reached
    assert ends >= 4  # at least the last step of each copy has reached its own goal


@pytest.mark.parametrize(("time_aware", "at_the_end"), [(True, 0), (False, 1)])
def test_copies_end_where_no_time_is_left(time_aware, at_the_end):
    """The task judges ends by the goal, and has none."""
    endless = BitFlip(4)
    endless.compute_terminated = lambda achieved, desired, info: False
    environment = replaceable(TimeLeft(GymEnvironment(endless, seed=1), horizon=3))
    relabelling = GoalRelabelling(1, "final", np.random.default_rng(0), time_aware)

    def observe(time_step, action, next_time_step, state):
        relabelling.note(time_step, action, next_time_step, environment.get_info(), True)
        return True

    run_episode(environment, RandomPolicy(environment.current().action_spec(), 0), 3, observe)
    copies = [copy.next_time_step for copy in relabelling.copies(environment)]
    assert [after.observation["time_left"].item() for after in copies] == pytest.approx(
        [2 / 3, 1 / 3, 0]
    )
    assert [float(after.discount) for after in copies] == [1, 1, at_the_end]


def test_goals_are_judged_one_by_one_where_there_are_no_batches():
    batched, single = Walk(), Walk(takes_batches=False)
    of_batches = [numbers_of(copy) for copy in copies_of(batched, 4)[0]]
    assert [numbers_of(copy) for copy in copies_of(single, 4)[0]] == of_batches
    # The first episode itself, one by one and as a batch to compare, a batch again, the copies.
    assert batched.num_calls == 4 + 1 + 1 + 1
    assert single.num_calls == 4 + 1 + 4 + 4 * 4


def test_an_episode_is_copied_once_and_a_cut_one_is_forgotten():
    copies, relabelling = copies_of(Walk(), 1)
    environment = replaceable(GymEnvironment(Walk(), seed=1))
    assert len(copies) == 4 and not list(relabelling.copies(environment))
    first = environment.reset()
    second = environment.step(np.zeros(1, np.float32))
    relabelling.note(first, np.zeros(1), second, {}, True)  # of an episode that fails later
    relabelling.note(first, np.zeros(1), second, {}, True)
    assert len(list(relabelling.copies(environment))) == 1


def test_a_step_that_is_not_kept_has_no_copies():
    environment = replaceable(GymEnvironment(Walk(), seed=1))
    relabelling = GoalRelabelling(1, "final", np.random.default_rng(0), False)
    first = environment.reset()
    second = environment.step(np.zeros(1, np.float32))
    broken = second._replace(reward=np.float32(np.nan))
    relabelling.note(first, np.zeros(1), second, {}, True)
    relabelling.note(second, np.zeros(1), broken, {}, False)  # ends the episode
    assert len(list(relabelling.copies(environment))) == 1
    relabelling.note(first, np.zeros(1), second, {}, True)  # of an episode that fails later
    relabelling.note(first, np.zeros(1), broken, {}, False)
    assert not list(relabelling.copies(environment))


def test_other_rewards_than_those_of_the_steps_are_refused():
    message = r"returned -99 for env step 1 of the episode, whose reward was -92 \(4 of 4 env"
    with pytest.raises(ConfigError, match=message):
        copies_of(Walk(lies=True), 1)


def test_what_compute_reward_raises_is_a_failure_of_the_environment():
    with pytest.raises(EnvironmentFailure, match="compute_reward raised.*no rewards today"):
        copies_of(Walk(fails=True), 1)


def test_a_step_that_follows_the_first_of_an_episode_keeps_those_before():
    environment = replaceable(GymEnvironment(Walk(), seed=1))
    relabelling = GoalRelabelling(1, "final", np.random.default_rng(0), False)
    time_step = environment.reset()
    assert time_step.step_type == ts.StepType.FIRST
    for _ in range(3):
        following = environment.step(np.zeros(1, np.float32))
        relabelling.note(time_step, np.zeros(1, np.float32), following, None, True)
        time_step = following
    assert len(list(relabelling.copies(environment))) == 3
