import gym
import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.frames import is_image
from tfagents_system.environments.as_images import AsImages
from tfagents_system.environments.frame_stack import FrameStack
from tfagents_system.environments.gym_adapter import GymEnvironment

RAMP = np.arange(24 * 20).reshape(24, 20) % 256  # rows, columns


class Pictures(gym.Env):
    """Shows `picture`."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, picture, low=0, high=255, nests=False):
        self.picture, self._nests = picture, nests
        self.observation_space = gym.spaces.Box(low, high, picture.shape, picture.dtype)
        if nests:
            speed = gym.spaces.Box(-1, 1, (2,), np.float32)
            self.observation_space = gym.spaces.Dict(eye=self.observation_space, speed=speed)

    def _observe(self):
        return (
            {"eye": self.picture, "speed": np.float32([0.5, -1])} if self._nests else self.picture
        )

    def reset(self):
        return self._observe()

    def step(self, action):
        return self._observe(), 0.0, False, {}


def images_of(environment):
    action = np.zeros(1, np.float32)
    return [environment.reset().observation, environment.step(action).observation]


COLORS = np.stack([RAMP, 255 - RAMP, RAMP // 2], axis=2)
FAR = np.broadcast_to(np.float32([1, 1, 5]), COLORS.shape)  # two colors and a depth in m


@pytest.mark.parametrize(
    ("picture", "low", "high", "expected"),
    [
        (RAMP.astype(np.uint8), 0, 255, RAMP[:, :, np.newaxis]),
        (np.float32(COLORS / 255), 0, 1, COLORS),
        (np.float32(COLORS), 0, 255, COLORS),
        (np.float32(COLORS / 127.5 - 1), -1, 1, COLORS),
        (np.float32(RAMP / 255), 0, 1, RAMP[:, :, np.newaxis]),
        (COLORS.astype(np.int32), 0, 255, COLORS),
        (np.moveaxis(COLORS, 2, 0).astype(np.uint8), 0, 255, COLORS),
        (np.float32(np.moveaxis(COLORS, 2, 0) / 255), 0, 1, COLORS),
        (np.float32(COLORS / 255 * [1, 1, 5]), 0, FAR, COLORS),
    ],
)
def test_a_picture_becomes_an_image_of_the_same_colors(picture, low, high, expected):
    environment = AsImages(GymEnvironment(Pictures(picture, low, high)))
    spec = environment.observation_spec()
    assert is_image(spec) and spec.shape == expected.shape
    for image in images_of(environment):
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, expected)
    stacked = FrameStack(environment, 2).reset().observation
    np.testing.assert_array_equal(stacked, np.concatenate([expected] * 2, axis=2))


def test_other_parts_of_the_observation_stay_as_they_are():
    environment = AsImages(GymEnvironment(Pictures(RAMP.astype(np.uint8), nests=True)))
    assert {key: tuple(spec.shape) for key, spec in environment.observation_spec().items()} == {
        "eye": (24, 20, 1), "speed": (2,)
    }  # fmt: skip
    for observation in images_of(environment):
        assert observation["speed"].tolist() == [0.5, -1]
        np.testing.assert_array_equal(observation["eye"][:, :, 0], RAMP)


@pytest.mark.parametrize(
    ("picture", "bounds", "message"),
    [
        (np.zeros(3, np.float32), (0, 1), r"no observation .* is a picture: float32 \[3\]"),
        (np.zeros((24, 20, 3), np.uint8), (0, 255), "no observation .* is a picture: uint8"),
        (np.zeros((24, 20), np.float32), (-np.inf, np.inf), "finite bounds, .* such as Box"),
        (np.zeros((24, 20), np.float32), (0, 0), "from 0 to 0; expected finite bounds, the up"),
    ],
)
def test_what_is_no_picture_or_has_no_bounds_is_refused(picture, bounds, message):
    with pytest.raises(ConfigError, match=message):
        AsImages(GymEnvironment(Pictures(picture, *bounds)))


def test_nan_becomes_no_black_pixel():
    env = Pictures(np.zeros((24, 20), np.float32), 0, 1)
    environment = AsImages(GymEnvironment(env))
    environment.reset()
    env.picture = np.full((24, 20), np.nan, np.float32)
    with pytest.raises(ValueError, match="observation is not finite"):
        environment.step(np.zeros(1, np.float32))
