import math

import numpy as np
import pytest

from tfagents_system.tasks import partial

SOFT, STIFF = -1.0, 1.0
# At the greatest stiffness a bump slides from here on, in m past its near edge.
SLIDES_AT = 0.02 * 0.027 / 0.047


def placed(bumps, finger):
    environment = partial.load("push-r-bump", seed=1)
    environment.reset()
    environment.gym.unwrapped.place(bumps, finger)
    return environment


def move(environment, *moves):
    """Moves by meters, at most 0.05 each."""
    return [environment.step(np.float32([meters / 0.05, stiff])) for meters, stiff in moves]


def test_a_soft_finger_bends_in_proportion_and_passes_over_the_bump():
    environment = placed([-0.2, 0.08], 0.05)
    steps = move(environment, (0.005, SOFT), (0.015, SOFT), (0.02, SOFT), (0.015, SOFT))
    y = np.cumsum([0.055, 0.015, 0.02, 0.015])
    depth = [0, 0.07 - 0.06, 0.02, 0]  # of the near edge at 0.06; at most the radius; past 0.10
    angles = [-math.pi / 3 * d / 0.02 for d in depth]
    for step, *expected in zip(steps, y, angles, strict=True):
        np.testing.assert_allclose(step.observation, expected, atol=1e-6)
        assert step.reward == 0 and not step.is_last()
    assert environment.gym.unwrapped.bumps == [-0.2, 0.08]
    (back,) = move(environment, (-0.015, SOFT))  # met from the right now
    np.testing.assert_allclose(back.observation, [0.09, math.pi / 3 * 0.5], atol=1e-6)


def test_a_stiff_finger_pushes_the_right_bump_to_the_right_and_succeeds():
    environment = placed([-0.2, 0.08], 0.05)
    first, second = move(environment, (0.03, STIFF), (0.005, STIFF))
    near_edge = 0.08 - SLIDES_AT  # the finger is at 0.08
    np.testing.assert_allclose(environment.gym.unwrapped.bumps[1], 0.085 - SLIDES_AT + 0.02)
    assert 0.085 - SLIDES_AT + 0.02 - 0.08 > 0.01 > near_edge + 0.02 - 0.08
    assert (first.reward, first.is_last()) == (0, False)
    np.testing.assert_allclose(first.observation[1], -math.pi / 3 * 0.027 / 0.047, rtol=1e-5)
    assert second.is_last() and (second.reward, second.discount) == (1, 0)
    assert environment.get_info()["success"]


def test_half_stiffness_moves_nothing():
    environment = placed([-0.2, 0.08], 0.05)
    steps = move(environment, (0.05, 0.0), (0.01, 0.0))
    assert environment.gym.unwrapped.bumps == [-0.2, 0.08]
    assert [step.reward for step in steps] == [0, 0]


@pytest.mark.parametrize(
    ("bumps", "finger", "moves"),
    [
        ([0.08, 0.24], 0.05, [(0.03, STIFF)]),  # the left one to the right
        ([-0.08, 0.24], -0.05, [(-0.03, STIFF)]),  # the left one to the left
        ([-0.24, -0.08], -0.05, [(-0.03, STIFF)]),  # the right one to the left
        ([-0.24, 0.08], 0.05, [(0.035, SOFT), (-0.01, STIFF)]),  # the same, from on top of it
    ],
)
def test_wrong_pushes_end_with_minus_one(bumps, finger, moves):
    environment = placed(bumps, finger)
    *_, last = move(environment, *moves)
    assert last.is_last() and (last.reward, last.discount) == (-1, 0)
    assert not environment.get_info()["success"]


def test_a_finger_that_turns_back_before_the_middle_lets_go():
    environment = placed([-0.2, 0.08], 0.05)
    bent, straight = move(environment, (0.02, SOFT), (-0.015, STIFF))
    assert bent.observation[1] < -0.5 and straight.observation[1] == 0
    assert environment.gym.unwrapped.bumps == [-0.2, 0.08]


@pytest.mark.parametrize("side", [-1, 1])
def test_leaving_the_workspace_terminates_with_no_reward(side):
    environment = placed([-0.08, 0.08], side * 0.32)
    first, second = move(environment, (side * 0.05, SOFT), (side * 0.05, SOFT))
    assert not first.is_last()
    assert second.is_last() and (second.reward, second.discount) == (0, 0)
    np.testing.assert_allclose(second.observation, [side * 0.4, 0], atol=1e-6)


def test_time_limit_is_50_steps_with_discount_1():
    environment = placed([-0.24, 0.08], 0.0)
    steps = move(environment, *[(0.0, SOFT)] * 50)
    assert [step.is_last() for step in steps] == [False] * 49 + [True]
    assert steps[-1].discount == 1 and environment.get_info()["success"] is False


def test_bumps_lie_in_neighbouring_places_and_the_finger_between():
    environment = partial.load("push-r-bump", seed=1)
    pairs, noise = [], []
    for _ in range(600):
        y, angle = environment.reset().observation
        assert abs(y) <= 0.03 and angle == 0
        left, right = environment.gym.unwrapped.bumps
        pair = round((left + 0.24) / 0.16)
        pairs.append(pair)
        noise.append([left - (-0.24 + 0.16 * pair), right - (-0.08 + 0.16 * pair), y])
    counts = np.bincount(pairs)
    # Each of three: 200, with a standard deviation of sqrt(600 x 1/3 x 2/3) < 12.
    assert len(counts) == 3 and np.abs(counts - 200).max() < 3 * 12
    assert np.abs(noise).max() <= 0.03 + 1e-6
    assert np.ptp(noise, axis=0).min() > 0.058


def test_a_finger_that_counts_bumps_from_the_left_always_pushes_the_right_one():
    environment = partial.load("push-r-bump", seed=1)
    for _ in range(100):
        step = environment.reset()
        while step.observation[0] > -0.31:
            (step,) = move(environment, (-0.05, SOFT))
        num_met, is_touching = 0, False  # left of all bumps
        while num_met < 2:
            (step,) = move(environment, (0.02, SOFT))
            touched, is_touching = is_touching, step.observation[1] < 0
            num_met += is_touching and not touched
        *_, step = move(environment, (-0.02, SOFT), (0.045, STIFF))
        assert environment.get_info()["success"] and step.reward == 1


def test_a_finger_that_pushes_the_first_bump_fails_two_times_of_three():
    environment = partial.load("push-r-bump", seed=1)
    num_successes = 0
    for _ in range(100):
        step = environment.reset()
        while not step.is_last():
            (step,) = move(environment, (0.02, STIFF))
        num_successes += environment.get_info()["success"]
    # The first bump to its right is the right one if they lie on both sides: one pair of three.
    assert abs(num_successes - 100 / 3) < 3 * np.sqrt(100 * 2 / 9)
