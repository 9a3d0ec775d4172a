import math

import gym
import numpy as np
import pytest

from tfagents_system.tasks import partial


def one(action):
    return np.float32([action])


@pytest.fixture
def environment():
    environment = partial.load("cartpole-continuous-long", seed=1)
    environment.reset()
    return environment


def test_two_steps_from_rest(environment):
    environment.gym.unwrapped.state = np.zeros(4)
    first = environment.step(one(0.5))
    push = 30 * 0.5 / (1 + 0.1)
    spin_change = -push / (0.5 * (4 / 3 - 0.1 / 1.1))
    acceleration = push - 0.1 * 0.5 * spin_change / 1.1
    expected = [0, 0.02 * acceleration, 0, 0.02 * spin_change]
    np.testing.assert_allclose(first.observation, expected, rtol=1e-6)
    assert first.reward == 1 and not first.is_last()
    second = environment.step(one(0))
    x, angle = 0.02 * expected[1], 0.02 * expected[3]  # Euler: of the velocities before the step
    np.testing.assert_allclose(second.observation[[0, 2]], [x, angle], rtol=1e-6)


def test_equations_are_those_of_gyms_cart_pole(environment):
    reference = gym.make("CartPole-v1").unwrapped  # pushes by 10 N
    reference.reset()
    reference.state = environment.gym.unwrapped.state = np.array([0.1, -0.2, 0.05, 0.3])
    for sign in [1, 1, -1, -1, 1, -1, -1, 1]:
        expected, *_ = reference.step(int(sign > 0))
        found = environment.step(one(sign * 10 / 30)).observation
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "state", [[2.39, 1, 0, 0], [-2.39, -1, 0, 0], [0, 0, math.radians(11.9), 1],
              [0, 0, -math.radians(11.9), -1]],
)  # fmt: skip
def test_leaving_the_track_or_12_degrees_terminates(environment, state):
    environment.gym.unwrapped.state = np.array(state, np.float64)
    step = environment.step(one(0))
    assert step.is_last() and (step.reward, step.discount) == (1, 0)


def test_a_pole_that_stands_is_cut_after_1000_steps(environment):
    environment.gym.unwrapped.state = np.zeros(4)
    steps = [environment.step(one(0)) for _ in range(1000)]
    assert [step.is_last() for step in steps] == [False] * 999 + [True]
    assert steps[-1].discount == 1 and sum(step.reward for step in steps) == 1000


def test_state_begins_near_zero(environment):
    starts = np.array([environment.reset().observation for _ in range(300)])
    assert np.abs(starts).max() <= 0.05
    assert np.ptp(starts, axis=0).min() > 0.095


def test_positions_or_velocities_alone(environment):
    positions = partial.load("cartpole-continuous-long-p", seed=1)
    velocities = partial.load("cartpole-continuous-long-v", seed=1)
    steps = [environment.gym.unwrapped.state, positions.reset(), velocities.reset()]
    for _ in range(3):
        x, velocity, angle, spin = np.float32(environment.gym.unwrapped.state)
        assert steps[1].observation.tolist() == [x, angle]
        assert steps[2].observation.tolist() == [velocity, spin]
        steps = [e.step(one(0.3)) for e in (environment, positions, velocities)]
