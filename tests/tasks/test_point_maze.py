import pathlib
import runpy

import numpy as np
import pytest

from tfagents_system.tasks.drawing import BLUE, GRAY, GREEN
from tfagents_system.tasks.point_maze import GOAL, START, PointMaze

GUIDE = pathlib.Path(__file__).parents[2] / "zoo/point_maze_guide.py"


def move_to(env, place):
    env.place = np.float32(place)


@pytest.mark.parametrize(
    "place, action, expected",
    [
        ((0.0, 0.6), (1.0, -0.5), (0.1, 0.55)),
        ((-0.98, -0.6), (-1.0, 0.0), (-1.0, -0.6)),  # the edge
        ((0.0, -0.35), (0.0, 1.0), (0.0, -0.35)),  # the wall, from below
        ((0.0, -0.35), (1.0, 1.0), (0.1, -0.35)),  # along it
        ((0.55, 0.0), (-1.0, 0.5), (0.55, 0.05)),  # its end
        ((0.45, -0.35), (1.0, 1.0), (0.55, -0.25)),  # around it
        ((0.0, 0.35), (0.0, -1.0), (0.0, 0.35)),  # from above
    ],
)
def test_walls_stop_the_point(place, action, expected):
    env = PointMaze()
    env.reset()
    move_to(env, place)
    observation, reward, is_over, info = env.step(np.float32(action))
    np.testing.assert_allclose(observation, expected, atol=1e-6)
    assert (reward, is_over, info) == (0.0, False, {})


def test_the_goal_ends_the_episode_and_is_all_that_pays():
    env = PointMaze()
    assert np.abs(env.reset() - START).max() <= 0.1
    move_to(env, GOAL + [0.35, 0.0])
    _, reward, is_over, info = env.step(np.float32([-1.0, 0.0]))
    assert (reward, is_over, info) == (1.0, True, {"success": True})


def test_the_guide_finds_the_goal_and_random_actions_do_not():
    env = PointMaze()
    rng = np.random.default_rng(1)
    for policy, is_solved in ((runpy.run_path(str(GUIDE))["Policy"](), True),
                              (None, False)):  # fmt: skip
        for seed in range(20):
            env.seed(seed)
            observation, reward = env.reset(), 0.0
            if policy is not None:
                policy.reset()
            for _ in range(100):
                action = rng.uniform(-1, 1, 2) if policy is None else policy.action(observation)
                observation, reward, is_over, _ = env.step(action)
                if is_over:
                    break
            assert (reward == 1.0) == is_solved


def test_a_frame_shows_point_goal_and_wall():
    env = PointMaze()
    env.reset()
    move_to(env, (0.5, -0.5))
    frame = env.render()
    assert frame.shape == (200, 200, 3)
    # Column and row of (x, y) are 100 (1 + x) and 100 (1 - y).
    for row, column, color in ((150, 150, BLUE), (20, 20, GREEN), (100, 100, GRAY)):
        np.testing.assert_array_equal(frame[row, column], color)
