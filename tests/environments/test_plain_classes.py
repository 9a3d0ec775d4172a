"""Environments that have only what they must have, or something else under a known name."""

import re

import gym
import gymnasium
import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.dm_control_adapter import DmControlEnvironment
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.environments.time_limits import keep_discount_at_time_limits
from tfagents_system.films.playback import DEFAULT_RATE, playback_of

SPACE = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


class PlainGym:
    """No gym.Env: `reset`, `step` and spaces."""

    observation_space = action_space = SPACE

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        return np.float32(action), 1.0, False, {}


class PlainGymnasium(PlainGym):
    def reset(self):
        return super().reset(), {}

    def step(self, action):
        return np.float32(action), 1.0, False, False, {}


class NumberedGym(gym.Env):
    observation_space = action_space = SPACE

    def __init__(self):
        self.seed = 0
        self.metadata = None
        self.env = "arm-v0"  # no environment

    reset, step = PlainGym.reset, PlainGym.step


class NumberedGymnasium(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self):
        self.seed = 0
        self.metadata = ["human"]

    def reset(self, seed=None, options=None):
        self.got = seed
        return np.zeros(2, np.float32), {}

    step = PlainGymnasium.step


class Spec:
    shape, dtype, minimum, maximum, name = (2,), np.dtype(np.float32), -1.0, 1.0, "spec"


class PlainDm:
    """A dm_env without task, random_state, physics, close and control_timestep."""

    class TimeStep:
        observation, reward, discount = np.zeros(2, np.float32), 1.0, 1.0

        def last(self):
            return False

    def observation_spec(self):
        return Spec()

    action_spec = observation_spec

    def reset(self):
        return self.TimeStep()

    def step(self, action):
        return self.TimeStep()


class DmWithGenerator(PlainDm):
    task = "reach"

    def __init__(self):
        self.random_state = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("adapter", "make"),
    [
        (GymEnvironment, PlainGym),
        (GymEnvironment, NumberedGym),
        (GymEnvironment, lambda: gym.wrappers.TimeLimit(NumberedGym(), 5)),
        (GymnasiumEnvironment, PlainGymnasium),
        (GymnasiumEnvironment, NumberedGymnasium),
        (DmControlEnvironment, PlainDm),
        (DmControlEnvironment, DmWithGenerator),
    ],
)
def test_nothing_is_read_that_nobody_promised(adapter, make):
    environment = adapter(make(), seed=3)
    keep_discount_at_time_limits(environment)
    assert environment.reset().is_first()
    assert float(environment.step(np.zeros(2, np.float32)).reward) == 1.0
    assert playback_of(environment).frames_per_sec == DEFAULT_RATE
    with pytest.raises(ConfigError, match="set_state"):
        environment.set_state({"mass": 1.0})
    with pytest.raises(ConfigError, match="no choice of cameras"):
        environment.set_camera("top")
    for _ in range(2):
        environment.close()


def test_a_seed_reaches_what_can_take_one():
    inner = NumberedGymnasium()
    GymnasiumEnvironment(inner, seed=3).reset()
    assert inner.got == 3
    draws = []
    for seed in (3, 3, 4):
        inner = DmWithGenerator()
        DmControlEnvironment(inner, seed=seed)
        draws.append(inner.random_state.random())
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(
    ("adapter", "make"),
    [(GymEnvironment, PlainGym), (GymnasiumEnvironment, PlainGymnasium)],
)
def test_a_film_of_what_cannot_draw_is_refused(adapter, make):
    environment = adapter(make())
    environment.reset()
    with pytest.raises(ConfigError, match=f"{make.__name__} has no method render, which films"):
        environment.render()


def test_a_dm_env_without_mujoco_cannot_be_filmed():
    with pytest.raises(ConfigError, match="PlainDm has no physics of MuJoCo"):
        DmControlEnvironment(PlainDm()).render()


@pytest.mark.parametrize(
    ("adapter", "make", "names"),
    [
        (GymEnvironment, PlainGym, ["observation_space", "action_space"]),
        (GymnasiumEnvironment, PlainGymnasium, ["action_space"]),
        (GymEnvironment, PlainGym, ["step"]),
        (DmControlEnvironment, PlainDm, ["action_spec"]),
    ],
)
def test_what_is_missing_is_said(adapter, make, names):
    environment = type("Bare", (make,), dict.fromkeys(names))()
    lacking = " and no ".join(sorted(names, key=["step", "observation_space"].count, reverse=True))
    with pytest.raises(ConfigError, match=f"Bare has no {lacking}; an environment needs reset, "):
        adapter(environment)


def test_a_reset_of_gyms_is_named_as_that():
    environment = GymnasiumEnvironment(PlainGym())
    with pytest.raises(ConfigError, match=r"PlainGym.reset returned a ndarray; gymnasium's"):
        environment.reset()


@pytest.mark.parametrize("result", [None, (np.zeros(2), 1.0), (np.zeros(2), 1.0, False, {}, {}, 0)])
@pytest.mark.parametrize(
    ("adapter", "make", "allowed"),
    [
        (GymEnvironment, PlainGym, "(observation, reward, done, info). If it has gymnasium's"),
        (
            GymnasiumEnvironment,
            PlainGymnasium,
            "(observation, reward, terminated, truncated, info)",
        ),
    ],
)
def test_a_step_of_another_interface_is_named_with_what_is_allowed(adapter, make, allowed, result):
    environment = adapter(type("Odd", (make,), {"step": lambda self, action: result})())
    environment.reset()
    found = "a NoneType" if result is None else f"{len(result)} values"
    message = re.escape(f"Odd.step returned {found}; expected {allowed}")
    with pytest.raises(ConfigError, match=message):
        environment.step(np.zeros(2, np.float32))


def test_a_reset_of_gymnasiums_in_an_environment_of_gym_is_named_as_that():
    environment = GymEnvironment(PlainGymnasium())
    with pytest.raises(ConfigError, match="PlainGymnasium.reset returned two values; .*gymnasium"):
        environment.reset()


def test_the_end_of_an_episode_without_an_info_is_a_termination():
    class Ending(PlainGym):
        def step(self, action):
            return np.zeros(2), 1.0, True, None

    environment = GymEnvironment(Ending())
    environment.reset()
    assert environment.step(np.zeros(2, np.float32)).discount == 0


@pytest.mark.parametrize("adapter", [GymEnvironment, GymnasiumEnvironment])
@pytest.mark.parametrize(
    ("late", "message"),
    [
        (
            [0.0, [0.0]],
            "observation/arm is a list that is not an array of numbers, its spec has shape",
        ),
        (None, "the observation is NoneType; expected a dict with ['arm', 'hand']"),
        (
            {"arm": np.zeros(2)},
            "the observation is ['arm']; expected a dict with ['arm', 'hand']",
        ),
    ],
)
def test_an_observation_that_is_wrong_in_a_later_step_is_named(adapter, late, message):
    good = {"arm": np.zeros(2), "hand": np.zeros(2)}
    late = {**good, "arm": late} if isinstance(late, list) else late
    base = PlainGym if adapter is GymEnvironment else PlainGymnasium

    class Late(base):
        observation_space = gym.spaces.Dict({"arm": SPACE, "hand": SPACE})

        def reset(self):
            return (good, {}) if base is PlainGymnasium else good

        def step(self, action):
            return (late, *super().step(action)[1:])

    environment = adapter(Late())
    environment.reset()
    with pytest.raises(ValueError, match=re.escape(message)):
        environment.step(np.zeros(2, np.float32))
