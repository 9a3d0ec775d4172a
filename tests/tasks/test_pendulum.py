import math

import numpy as np
import pytest

from tfagents_system.tasks import partial


def torque(value):
    return np.float32([value])


@pytest.mark.parametrize("length", [0.2, 1.0])
def test_one_step_with_each_length(length):
    environment = partial.load("pendulum-var-len-pvl", seed=1)
    environment.reset()
    pendulum = environment.gym.unwrapped
    pendulum.l, pendulum.state = length, np.array([0.3, 0.5])
    step = environment.step(torque(-0.2))
    change = 3 * 10 / (2 * length) * math.sin(0.3) + 3 / length**2 * -0.2
    velocity = 0.5 + 0.05 * change
    angle = 0.3 + 0.05 * velocity
    expected = [math.cos(angle), math.sin(angle), velocity, length]
    np.testing.assert_allclose(step.observation, expected, rtol=1e-6)
    np.testing.assert_allclose(
        step.reward, -(0.3**2 + 0.1 * 0.5**2 + 0.001 * 0.2**2), rtol=1e-6
    )  # fmt: skip


def test_both_lengths_are_as_likely_and_stay_for_an_episode():
    environment = partial.load("pendulum-var-len-pvl", seed=1)
    starts = np.array([environment.reset().observation for _ in range(400)])
    lengths = starts[:, 3]
    assert set(lengths.tolist()) == {float(np.float32(0.2)), 1.0}
    assert abs(np.mean(lengths == 1.0) - 0.5) < 3 * math.sqrt(1 / 4 / 400)
    assert np.abs(starts[:, 2]).max() <= 1 and np.ptp(starts[:, 2]) > 1.9
    length = environment.reset().observation[3]
    steps = [environment.step(torque(1)) for _ in range(200)]
    assert {float(step.observation[3]) for step in steps} == {float(length)}
    assert steps[-1].is_last() and steps[-1].discount == 1


def test_variants_see_parts_of_the_same_state():
    environments = {
        name: partial.load(f"pendulum-var-len-{name}", seed=3) for name in ("pvl", "pv", "pl", "pa")
    }
    steps = {name: environment.reset() for name, environment in environments.items()}
    for action in (0.0, 1.5, -2.0):  # the first one is that of the reset
        if action:
            steps = {name: e.step(torque(action)) for name, e in environments.items()}
        cosine, sine, velocity, length = steps["pvl"].observation.tolist()
        assert steps["pv"].observation.tolist() == [cosine, sine, velocity]
        assert steps["pl"].observation.tolist() == [cosine, sine, length]
        assert steps["pa"].observation.tolist() == [cosine, sine, action]


def test_variants_of_gyms_pendulum_see_parts_of_its_state():
    names = ("p", "v", "va", "p-concat5", "v-concat10", "va-concat10")
    environments = {name: partial.load(f"pendulum-{name}", seed=2) for name in names}
    full = partial.load("pendulum-va", seed=2).gym
    full.seed(2)
    observed = [full.reset(seed=2)]
    steps = {name: environment.reset() for name, environment in environments.items()}
    actions = [0.0, 1.5, -2.0, 0.5]
    for action in actions[1:]:
        observed.append(full.step(torque(action))[0])
        steps = {name: e.step(torque(action)) for name, e in environments.items()}
    seen = {name: step.observation.tolist() for name, step in steps.items()}
    positions = [list(map(float, o[:2])) for o in observed]
    velocities = [float(o[2]) for o in observed]
    with_action = [[v, a] for v, a in zip(velocities, actions, strict=True)]
    assert seen["p"] == positions[-1]
    assert seen["v"] == velocities[-1:]
    assert seen["va"] == with_action[-1]
    assert seen["p-concat5"] == sum(positions, [0.0] * 2 * (5 - 4))
    assert seen["v-concat10"] == [0.0] * (10 - 4) + velocities
    assert seen["va-concat10"] == sum(with_action, [0.0] * 2 * (10 - 4))
