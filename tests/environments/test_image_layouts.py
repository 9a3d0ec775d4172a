import gym
import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.images import layout_of
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.train_params_base import TrainParamsBase

BOARD = np.arange(3 * 8 * 9, dtype=np.float32).reshape(3, 8, 9) / 216


class Game(gym.Env):
    """Shows a board of 3 x 8 cells of 9 kinds, or as a dict with a heat map."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, nests):
        self._nests = nests
        board = gym.spaces.Box(0, 1, BOARD.shape, np.float32)
        heat = gym.spaces.Box(0, 1, (8, 9), np.float32)
        self.observation_space = gym.spaces.Dict(board=board, heat=heat) if nests else board

    def _observe(self):
        return {"board": BOARD, "heat": BOARD[0]} if self._nests else BOARD

    def reset(self):
        return self._observe()

    def step(self, action):
        return self._observe(), 0.0, False, {}


class Params(TrainParamsBase):
    nests = True

    def env_ctor(self, *args, seed=None, **kwargs):
        return Game(self.nests)


def environment_with(layouts, nests=True):
    params = Params({"horizon": 9})
    params.nests, params.image_layouts = nests, layouts
    params.check("params.py")
    return make_collect_environment(params, seed=0)


def test_the_layouts_that_are_given_are_found_and_observations_stay_as_they_are():
    environment = environment_with({"board": "HWC", "heat": "HW"})
    layouts = {key: layout_of(spec) for key, spec in environment.observation_spec().items()}
    assert layouts == {"board": "HWC", "heat": "HW"}
    for time_step in (environment.reset(), environment.step(np.zeros(1, np.float32))):
        np.testing.assert_array_equal(time_step.observation["board"], BOARD)
    guessed = environment_with(None).observation_spec()
    assert {key: layout_of(spec) for key, spec in guessed.items()} == {
        "board": "CHW", "heat": "vector"
    }  # fmt: skip
    (shape, dtype) = guessed["board"].shape, guessed["board"].dtype
    assert (shape, dtype) == (BOARD.shape, environment.observation_spec()["board"].dtype)


@pytest.mark.parametrize("layout", ["HWC", "CHW", "vector"])
def test_a_single_array_is_called_observation(layout):
    environment = environment_with({"observation": layout}, nests=False)
    assert layout_of(environment.observation_spec()) == layout


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"heat": "CHW"}, r"'CHW' for 'heat', whose shape is \[8, 9\]; expected HW or vector"),
        (
            {"board": "HW"},
            r"'HW' for 'board', whose shape is \[3, 8, 9\]; expected HWC, CHW or v",
        ),
        ({"bord": "HWC"}, r"'HWC' for 'bord', which .* has not; expected board, heat"),
        ({"board": "WHC"}, "image_layouts is {'board': 'WHC'}; expected None or a dict"),
        ("HWC", "image_layouts is 'HWC'; expected None or a dict of HWC, CHW, HW, vector by"),
    ],
)
def test_layouts_that_cannot_be_are_refused(layouts, message):
    with pytest.raises(ConfigError, match=message):
        environment_with(layouts)
