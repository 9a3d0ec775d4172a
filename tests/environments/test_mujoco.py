"""Real environments of gymnasium[mujoco]."""

import numpy as np
import pytest

from tfagents_system.environments import gymnasium_adapter

pytest.importorskip("mujoco", reason="mujoco is an optional package")


def run(environment, num_steps):
    rng = np.random.default_rng(0)
    spec = environment.action_spec()
    steps = [environment.reset()]
    while not steps[-1].is_last() and len(steps) <= num_steps:
        steps.append(environment.step(rng.uniform(-1, 1, spec.shape).astype(np.float32)))
    return steps


def test_half_cheetah_ends_at_its_time_limit():
    environment = gymnasium_adapter.load("HalfCheetah-v5", seed=1)
    assert environment.observation_spec().shape == (17,)
    assert environment.observation_spec().dtype == np.float32
    steps = run(environment, 2000)
    assert len(steps) == 1 + 1000 and steps[-1].discount == 1.0
    assert "x_velocity" in environment.get_info()


def test_hopper_falls_by_a_termination():
    steps = run(gymnasium_adapter.load("Hopper-v5", seed=1), 2000)
    assert len(steps) < 500 and steps[-1].discount == 0.0
    assert all(step.discount == 1.0 for step in steps[:-1])


def test_same_seed_gives_the_same_episode():
    first, second = (run(gymnasium_adapter.load("Hopper-v5", seed=4), 50) for _ in range(2))
    other = run(gymnasium_adapter.load("Hopper-v5", seed=5), 50)
    np.testing.assert_array_equal(first[-1].observation, second[-1].observation)
    assert np.abs(first[0].observation - other[0].observation).max() > 1e-4
