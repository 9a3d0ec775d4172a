import numpy as np
import pytest

from tfagents_system.tasks import partial


def drive(environment, *actions):
    return [environment.step(np.float32([action])) for action in actions]


def car_at(position, velocity=0.0, right_side=1):
    environment = partial.load("car-flag", seed=1)
    environment.reset()
    car = environment.gym.unwrapped
    car.position, car.velocity, car.right_side = position, velocity, right_side
    return environment


def test_two_steps():
    first, second = drive(car_at(0.1), 1.0, -0.5)
    v = 0.0015 * 1, 0.0015 * (1 - 0.5)
    np.testing.assert_allclose(first.observation, [0.1 + v[0], v[0], 0], rtol=1e-6)
    np.testing.assert_allclose(second.observation, [0.1 + v[0] + v[1], v[1], 0], rtol=1e-6)
    assert (first.reward, first.discount) == (-1, 1)
    (step,) = drive(car_at(-0.5, 0.1995), 1.0)  # the speed's bound
    np.testing.assert_allclose(step.observation[:2], [-0.5 + 0.2, 0.2], rtol=1e-6)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("position", "is_told"),
    [(0.299, False), (0.301, True), (0.5, True), (0.699, True), (0.701, False), (-0.5, False)],
)
def test_side_is_told_near_one_half_only(position, is_told, side):
    (step,) = drive(car_at(position, right_side=side), 0.0)
    assert step.observation[2] == (side if is_told else 0)


@pytest.mark.parametrize("side", [-1, 1])
def test_right_flag_ends_with_success_and_the_wrong_one_with_the_rest_of_the_steps(side):
    right = car_at(0.9 * side, 0.15 * side, right_side=side)
    (step,) = drive(right, 0.0)
    assert step.is_last() and (step.reward, step.discount) == (-1, 0)
    assert right.get_info()["success"]
    wrong = car_at(-0.85 * side, -0.1 * side, right_side=side)
    first, second = drive(wrong, 0.0, 0.0)
    assert not first.is_last() and not wrong.get_info()["success"]
    assert second.is_last() and second.discount == 0
    # Together as many as the time limit costs.
    assert second.reward == -1 - (160 - 2) and first.reward + second.reward == -160


def test_time_limit_is_no_termination_and_no_success():
    environment = car_at(0.0)
    steps = drive(environment, *[0.0] * 160)
    assert [step.is_last() for step in steps] == [False] * 159 + [True]
    assert steps[-1].discount == 1 and sum(step.reward for step in steps) == -160
    assert environment.get_info()["success"] is False


def test_place_and_side_are_random():
    environment = partial.load("car-flag", seed=1)
    starts, sides = [], []
    for _ in range(400):
        starts.append(environment.reset().observation)
        sides.append(environment.gym.unwrapped.right_side)
    starts = np.array(starts)
    assert np.abs(starts[:, 0]).max() <= 0.2 and np.ptp(starts[:, 0]) > 0.39
    assert not starts[:, 1:].any()
    assert set(sides) == {-1, 1} and abs(np.mean(sides)) < 3 / np.sqrt(400)


def test_a_driver_that_asks_and_remembers_always_finds_the_right_flag():
    environment = partial.load("car-flag", seed=1)
    for _ in range(100):
        step, told = environment.reset(), 0
        while not step.is_last():
            told = told or int(step.observation[2])
            (step,) = drive(environment, told or 1)
        assert environment.get_info()["success"] and step.discount == 0
