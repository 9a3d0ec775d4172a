import os
import random
import subprocess
import sys

import gym
import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import pybullet_adapter

pytest.importorskip("pybullet", reason="pybullet is not installed")


@pytest.fixture(scope="module")
def minitaur():
    with pybullet_adapter.load("MinitaurBulletEnv-v0", seed=1, max_episode_steps=3) as environment:
        yield environment


def trajectory(name, seed, num_steps=5):
    """Observations of two resets with steps in between; fixed actions."""
    with pybullet_adapter.load(name, seed=seed) as environment:
        actions = np.random.RandomState(0).uniform(
            -0.5, 0.5, (num_steps, *environment.action_spec().shape)
        )
        steps = [environment.reset()]
        steps += [environment.step(action.astype(np.float32)) for action in actions]
        steps.append(environment.reset())
        steps += [environment.step(action.astype(np.float32)) for action in actions]
    return np.stack([step.observation for step in steps])


@pytest.mark.parametrize("name", ["MinitaurBulletEnv-v0", "HalfCheetahBulletEnv-v0"])
def test_same_seed_gives_the_same_trajectory(name):
    first = trajectory(name, seed=7)
    random.random(), np.random.random()  # what others draw in between must not matter
    np.testing.assert_array_equal(first, trajectory(name, seed=7))
    assert np.abs(first - trajectory(name, seed=8)).max() > 1e-6


def test_seeded_reset_leaves_the_global_generators_as_they_were(minitaur):
    before = (random.getstate(), np.random.get_state()[1].tolist())
    minitaur.reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_two_environments_do_not_disturb_each_other(minitaur):
    expected = trajectory("MinitaurBulletEnv-v0", seed=7, num_steps=2)
    with pybullet_adapter.load("MinitaurBulletEnv-v0", seed=7) as environment:
        minitaur.reset()
        environment.reset()
        minitaur.reset()
        # `reset` of the trajectory came after steps; a hard reset does not depend on them.
        np.testing.assert_array_equal(environment.reset().observation, expected[3])


def test_time_limit_keeps_discount_one_and_dtypes(minitaur):
    steps = [minitaur.reset()]
    while not steps[-1].is_last():
        steps.append(minitaur.step(np.zeros(8, np.float32)))
    assert len(steps) == 1 + 3 and steps[-1].discount == 1.0
    assert {(step.observation.shape, step.observation.dtype.name) for step in steps} == {
        ((28,), "float32")
    }
    assert [step.reward.dtype for step in steps] == [np.float32] * 4


def test_fall_is_a_termination(minitaur, monkeypatch):
    minitaur.reset()
    monkeypatch.setattr(minitaur.gym.unwrapped, "is_fallen", lambda: True)
    step = minitaur.step(np.zeros(8, np.float32))
    assert step.is_last() and step.discount == 0.0


def test_registered_time_limit_is_kept():
    with pybullet_adapter.load("HalfCheetahBulletEnv-v0") as environment:
        assert environment.gym.unwrapped.spec.max_episode_steps == 1000


def test_minitaur_frame_is_480_by_360(minitaur):
    minitaur.reset()
    frame = minitaur.render("rgb_array")
    assert (frame.shape, frame.dtype) == ((360, 480, 3), np.uint8)
    assert frame.min() < 100 < 200 < frame.max()


def test_half_cheetah_frame():
    with pybullet_adapter.load("HalfCheetahBulletEnv-v0", seed=0) as environment:
        environment.reset()
        frame = environment.render()
    assert (frame.shape, frame.dtype) == ((240, 320, 3), np.uint8)
    assert frame.min() < 100 < 200 < frame.max()


def test_no_window_where_the_constructor_opens_one_by_default():
    given = []

    class Arm(gym.Env):
        observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (1,))

        def __init__(self, renders=True, render=False):
            given.append((renders, render))

    gym.register("ArmTest-v0", entry_point=Arm)
    pybullet_adapter.load("ArmTest-v0")
    assert given == [(False, False)]


def test_unknown_id_names_the_nearest():
    with pytest.raises(ConfigError, match="Nearest registered: MinitaurBulletEnv-v0"):
        pybullet_adapter.load("MinitaurBullet-v0")


@pytest.mark.parametrize("name", ["MinitaurBulletEnv-v0", "HalfCheetahBulletEnv-v0"])
def test_loading_prints_no_banner(name):
    program = (
        "from tfagents_system.environments import pybullet_adapter\n"
        f"environment = pybullet_adapter.load('{name}')\n"
        "environment.reset()\n"
        "print('mine')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mine\n"
    assert "pybullet build time" not in done.stderr


def test_what_a_constructor_prints_is_shown_after_an_error(capfd):
    class Broken(gym.Env):
        def __init__(self):
            print("URDF file not found")
            os.write(1, b"from C\n")
            raise RuntimeError("cannot load")

    gym.register("BrokenTest-v0", entry_point=Broken)
    with pytest.raises(RuntimeError, match="cannot load"):
        pybullet_adapter.load("BrokenTest-v0")
    out, err = capfd.readouterr()
    assert out == ""
    assert "URDF file not found" in err and "from C" in err


def test_without_pybullet_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(ConfigError, match="pip install pybullet"):
        pybullet_adapter.load("MinitaurBulletEnv-v0")
