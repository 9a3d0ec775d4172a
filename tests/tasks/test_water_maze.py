import math

import numpy as np
import pytest

from tfagents_system.tasks import partial


def at(name, platform, position=None):
    """A maze that has been reset, with its platform and the swimmer at these places."""
    environment = partial.load(name, seed=1)
    environment.reset()
    environment.gym.unwrapped.platform = np.array(platform)
    if position is not None:
        environment.gym.unwrapped.position = np.array(position)
    return environment


def swim(environment, *actions):
    return [environment.step(np.float32(action)) for action in actions]


def test_simple_swimmer_accelerates_and_coasts():
    environment = at("water-maze-simple-mdp", [0.0, 0.7])
    steps = swim(environment, [0.03, -0.01], [0.02, 0], [0, 0])
    x = np.cumsum([0.03, 0.03 + 0.02, 0.03 + 0.02])
    y = np.cumsum([-0.01, -0.01, -0.01])
    for step, *position in zip(steps, x, y, strict=True):
        np.testing.assert_allclose(step.observation, [*position, 0, 0, 0.7], atol=1e-7)
        assert (step.reward, step.discount) == (0, 1)


def test_simple_swimmer_has_a_top_speed_and_stops_at_the_border():
    environment = at("water-maze-simple", [0.0, 0.7])
    steps = swim(environment, *[[0.03, 0]] * 13)
    x = np.cumsum([0.03, 0.06, 0.09] + [0.1] * 8)  # 0.98 after 11 steps
    x = [*x, x[-1], x[-1] + 0.03]  # 1.08 would be outside; then from rest, outside again
    x[-1] = x[-2]
    np.testing.assert_allclose([step.observation[0] for step in steps], x, atol=1e-6)
    (after,) = swim(environment, [-0.03, 0])
    np.testing.assert_allclose(after.observation, [x[-1] - 0.03, 0, 0], atol=1e-6)


def test_simple_swimmer_is_put_back_after_five_steps_on_the_platform_that_need_not_follow():
    environment = at("water-maze-simple", [0.0, 0.7], [0.0, 0.41])
    steps = swim(environment, [0, 0], [0, 0])
    assert [step.reward for step in steps] == [1, 1]
    steps = swim(environment, [0, -0.03], [0, 0.03])  # to 0.38, below 0.7 - 0.3, and no further
    assert [step.reward for step in steps] == [0, 0]
    steps = swim(environment, [0, 0.03], [0, 0], [0, 0.01], [0, 0])
    assert [step.reward for step in steps] == [1, 1, 1, 0]
    # The fifth one: in the centre, with the 1 of the platform that was left; then at rest there.
    np.testing.assert_allclose(steps[2].observation, [0, 0, 1], atol=0)
    np.testing.assert_allclose(steps[3].observation, [0, 0, 0], atol=0)


def test_simple_maze_begins_in_the_centre_with_a_platform_at_any_angle():
    environment = partial.load("water-maze-simple-mdp", seed=1)
    starts = np.array([environment.reset().observation for _ in range(300)])
    assert not starts[:, :3].any()
    np.testing.assert_allclose(np.hypot(starts[:, 3], starts[:, 4]), 0.7, rtol=1e-6)
    angles = np.sort(np.arctan2(starts[:, 4], starts[:, 3]))
    assert angles[0] < -math.pi + 0.1 and angles[-1] > math.pi - 0.1
    # The largest of 300 gaps is 2 pi ln(300) / 300 = 0.12 on average.
    assert np.diff(angles).max() < 0.3


def test_swimmer_without_inertia_goes_a_fifth_of_its_action():
    environment = at("water-maze", [0.5, 0.0], [0.0, 0.0])
    first, second = swim(environment, [0.2, -0.1], [0, 0])
    np.testing.assert_allclose(first.observation, [0.04, -0.02, 0], atol=1e-7)
    np.testing.assert_allclose(second.observation, [0.04, -0.02, 0], atol=1e-7)
    environment.gym.unwrapped.position = np.array([0.0, 0.99])
    (step,) = swim(environment, [0, 0.2])
    np.testing.assert_allclose(step.observation, [0, 0.99, 0], atol=1e-7)


def test_swimmer_is_put_elsewhere_after_five_steps_on_the_platform():
    environment = at("water-maze", [0.5, 0.0], [0.31, 0.0])
    steps = swim(environment, *[[0, 0]] * 5)
    assert [step.reward for step in steps] == [1] * 5
    assert [step.observation[2] for step in steps] == [1] * 5
    np.testing.assert_allclose(steps[3].observation[:2], [0.31, 0], atol=1e-7)
    x, y, _ = steps[4].observation
    assert math.hypot(x - 0.5, y) >= 0.2
    assert swim(environment, [0, 0])[0].reward == 0


def test_dense_reward_is_minus_the_distance_where_the_step_ended():
    environment = at("water-maze-dense", [0.3, 0.4], [0.0, 0.0])
    (step,) = swim(environment, [0, 0])
    np.testing.assert_allclose(step.reward, -0.5, rtol=1e-6)
    environment.gym.unwrapped.position = np.array([0.3, 0.3])
    steps = swim(environment, *[[0, 0]] * 5)  # the last one is before it is put elsewhere
    np.testing.assert_allclose([step.reward for step in steps], [-0.1] * 5, rtol=1e-6)


@pytest.mark.parametrize("name", ["water-maze", "water-maze-dense"])
def test_random_places_are_inside_and_apart(name):
    environment = partial.load(name, seed=1)
    maze, distances = environment.gym.unwrapped, []
    for _ in range(300):
        x, y, is_on_platform = environment.reset().observation
        assert is_on_platform == 0 and math.hypot(x, y) <= 1
        assert math.hypot(*maze.platform) <= 1 - 0.2
        assert math.hypot(*(maze.position - maze.platform)) >= 0.2
        distances.append((math.hypot(x, y), math.hypot(*maze.platform)))
    assert (np.ptp(distances, axis=0) > [0.9, 0.7]).all()


@pytest.mark.parametrize("name", ["water-maze-simple", "water-maze", "water-maze-dense"])
def test_only_the_time_limit_ends_an_episode(name):
    environment = at(name, [0.5, 0.0])
    steps = swim(environment, *[[0.01, 0]] * 200)
    assert [step.is_last() for step in steps] == [False] * 199 + [True]
    assert all(step.discount == 1 for step in steps)


def test_a_swimmer_that_knows_the_platform_earns_five_for_each_way_there():
    environment = partial.load("water-maze-simple-mdp", seed=1)
    for _ in range(10):
        step, earned = environment.reset(), 0
        velocity, before = np.zeros(2), np.zeros(2)
        while not step.is_last():
            position, platform = step.observation[:2], step.observation[3:]
            velocity, before = position - before, position
            if np.linalg.norm(velocity) > 0.15:  # put back to the centre
                velocity = np.zeros(2)
            (step,) = swim(environment, np.clip((platform - position) / 5 - velocity, -0.03, 0.03))
            earned += step.reward
        # Along an axis 0.03 + 0.06 + 0.09 + 3 x 0.1 > 0.4: on it after 6 steps, put back after 10.
        # Along a diagonal one step less.
        assert 5 * 200 // 10 <= earned <= 5 * 200 // 9
