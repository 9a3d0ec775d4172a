"""Environments that observe texts: beside numbers, and so that a wrapper must convert them."""

import pathlib

import numpy as np
import pytest
from registering_modules import registering_module

from tfagents_system.commands.check import check
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.environments.construction import make_collect_environment

ROOMS = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Missions(spaces.Space):
    def __init__(self):
        super().__init__(dtype=str)

    def contains(self, x):
        return isinstance(x, str)


class Room(gymnasium.Env):
    action_space = spaces.Discrete(3)
    observation_space = spaces.Dict(
        place=spaces.Box(-9, 9, (2,)), mission=Missions(), sign=spaces.Text(8)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.observe(), {}

    def step(self, action):
        self.place += 0.1 * (action - 1)
        return self.observe(), -abs(float(self.place[0])), False, False, {}

    def observe(self):
        return {"place": self.place, "mission": "go to the middle", "sign": "exit"}


class Told(Room):
    observation_space = spaces.Text(30)

    def observe(self):
        return " ".join(map(str, self.place))


class Read(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = spaces.Box(-9, 9, (2,))

    def observation(self, observation):
        return np.array(observation.split(), np.float32)


gymnasium.register("Room-v0", Room, max_episode_steps=20)
gymnasium.register("Told-v0", Told, max_episode_steps=20)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module that registers environments, in which commands are given."""
    with registering_module(tmp_path, monkeypatch, "talking_rooms", ROOMS) as folder:
        yield folder


def test_texts_beside_numbers_are_left_out_and_the_check_says_so(folder, capsys):
    assert check(env="talking_rooms:Room-v0", predict=False) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert "observation float32 [2]; action int64 [], one of 3" in table
    assert "observation/mission, observation/sign: a text has no numbers, and is left out" in table


def test_a_wrapper_reads_a_text_before_the_adapter_sees_it(folder):
    options = EnvironmentOptions.parse(wrap=["talking_rooms:Read"])
    project_of("talking_rooms:Told-v0", "told", options)
    config = load_env_config(pathlib.Path("told_config.json"))
    params = load_params(pathlib.Path("told_params.py"), config, [])
    environment = make_collect_environment(params, seed=1)
    assert environment.observation_spec().shape == (2,)
    before = environment.reset().observation
    after = environment.step(np.int64(2)).observation
    np.testing.assert_allclose(after, before + 0.1 * (2 - 1), rtol=1e-5)
    environment.close()


def test_an_observation_that_is_a_text_is_wrong_in_the_check(folder, capsys):
    assert check(env="talking_rooms:Told-v0", predict=False) == 78
    table = " ".join(capsys.readouterr().out.split())
    assert "Told has the observation space Text(" in table
    assert "Convert it in a wrapper of the environment" in table
