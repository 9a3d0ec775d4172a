import gym
import numpy as np
import pytest

from tfagents_system.tasks.simple import TASKS, Simple


def begun(goal, **settings):
    task = Simple(**settings)
    task.seed(1)
    task.reset()
    task.goal = goal
    return task


@pytest.mark.parametrize("goal", [-1, 1])
def test_an_episode_of_each_kind_of_action(goal):
    rewards = []
    task = begun(goal, stride=0.5)
    for action in (0.6, 1.0, 0.4):
        observation, reward, is_over, info = task.step(np.float32([action]))
        rewards.append(reward)
    assert observation.tolist() == [goal]
    # 0.3 + 0.5 + 0.2 = 1, the end of the axis
    np.testing.assert_allclose(rewards, [-0.01, -0.01, 1.06 * goal], rtol=1e-6)
    assert (is_over, info["success"]) == (True, goal == 1)
    task = begun(goal, num_continuous=0, num_discrete=1, stride=1.0)
    _, reward, is_over, info = task.step(0)
    np.testing.assert_allclose(reward, -1.06 * goal)
    assert (is_over, info["success"]) == (True, goal == -1)


def test_all_axes_must_come_to_an_end_and_the_reward_is_their_mean():
    task = begun(1, num_continuous=2, num_discrete=1, stride=0.5, success=2.0, penalty=0.25)
    moves = [([1, -1], 1), ([1, -1], 0), ([0, 0], 1), ([0, 0], 1)]
    rewards, ends = [], []
    for continuous, discrete in moves:
        action = {"continuous": np.float32(continuous), "discrete": discrete}
        _, reward, is_over, info = task.step(action)
        rewards.append(reward)
        ends.append(is_over)
    assert ends == [False, False, False, True]
    np.testing.assert_allclose(rewards, [-0.25] * 3 + [2 * (1 - 1 + 1) / 3])
    assert not info["success"]


def test_what_must_be_remembered_is_seen_three_times():
    task = Simple(must_remember=True)
    seen = [task.reset()] + [task.step(np.float32([0]))[0] for _ in range(4)]
    assert [bool(observation[0]) for observation in seen] == [True, True, True, False, False]


def test_lists_have_one_to_ten_entities_and_then_zeros():
    task = begun(-1, num_lists=2)
    lengths = {name: set() for name in ("list_0", "list_1")}
    for _ in range(100):
        observation, *_ = task.step(np.float32([0]))
        for name, entities in observation.items():
            count = int((entities[:, 0] == -1).sum())
            np.testing.assert_array_equal(entities[:count], -np.ones([count, 5]))
            np.testing.assert_array_equal(entities[count:], np.zeros([10 - count, 5]))
            lengths[name].add(count)
    assert lengths == {"list_0": set(range(1, 11)), "list_1": set(range(1, 11))}


@pytest.mark.parametrize("name", TASKS)
def test_spaces_hold_what_is_seen_and_done(name):
    task = Simple(**TASKS[name])
    task.action_space.seed(1)
    assert task.observation_space.contains(task.reset())
    observation, _, _, _ = task.step(task.action_space.sample())
    assert task.observation_space.contains(observation)
    num_axes = len(task.positions)
    assert task.render().shape[0] == 200
    is_nested = isinstance(task.action_space, gym.spaces.Dict)
    assert is_nested == name.startswith("hybrid") and num_axes >= 1
