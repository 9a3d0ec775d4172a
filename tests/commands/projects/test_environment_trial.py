"""Environments are tried before files are written, and decide some settings."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as of
from tf_agents.specs import array_spec

from tfagents_system.commands.new import new
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.environment_trial import LEAST_SIDE, try_environment
from tfagents_system.commands.projects.templates import params_text
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.data import images


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, for commands; what tests register with gymnasium is of theirs alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry.copy())
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    return tmp_path


@pytest.mark.parametrize(
    ("actions", "observations", "is_discrete", "is_one_vector"),
    [
        (of.Discrete(2), of.Box(-1, 1, (64,)), True, False),
        (of.Discrete(2), of.Box(0, 255, (84, 84, 3), np.uint8), True, False),
        (of.Tuple([of.MultiDiscrete([2, 3]), of.MultiBinary(2)]), of.Box(-1, 1, (4,)), True, False),
        (of.Dict(grip=of.Discrete(2), arm=of.Box(-1, 1, (2,))), of.Box(-1, 1, (4,)), False, False),
        (
            of.Dict(leg=of.Box(-1, 1, (3,)), arm=of.Box(-1, 1, (2,))),
            of.Box(-1, 1, (4,)),
            False,
            False,
        ),
        (of.Box(-1, 1, (1,)), of.Box(-1, 1, (4,)), False, True),
    ],
)
def test_a_trial_tells_what_actions_are(folder, actions, observations, is_discrete, is_one_vector):

    class Spaces(gymnasium.Env):
        action_space, observation_space = actions, observations

    gymnasium.register("Spaces-v0", entry_point=Spaces)
    environment = EnvironmentId("gymnasium", "Spaces-v0", 200)
    tried = try_environment(environment)
    assert tried == dataclasses.replace(
        environment,
        observes_image=observations.shape == (84, 84, 3),
        is_discrete=is_discrete,
        is_one_vector=is_one_vector,
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "is_image"),
    [
        ((84, 84, 3), np.float32, True),
        ((3, 84, 84), np.float64, True),
        ((84, 84), np.float32, False),  # which networks see as a vector, but for uint8
        ((84, 84), np.uint8, True),
        ((8, 8, 3), np.float32, False),  # tiny
        ((84, 84, 17), np.float32, False),
        ((84, 84, 3), np.int32, False),
    ],
)
def test_images_are_what_networks_see_as_such(folder, shape, dtype, is_image):

    class Sees(gymnasium.Env):
        action_space, observation_space = of.Box(-1, 1, (1,)), of.Box(0, 1, shape, dtype)

    gymnasium.register("Sees-v0", entry_point=Sees)
    tried = try_environment(EnvironmentId("gymnasium", "Sees-v0", 500))
    assert tried.observes_image == is_image
    spec = array_spec.ArraySpec(shape, dtype)
    is_tiny = sorted(shape)[-2] < LEAST_SIDE
    assert is_image == (images.is_image(spec) and not is_tiny)


class Camera(gymnasium.Env):
    observation_space = of.Dict(
        camera=of.Box(0, 255, (96, 96, 3), np.uint8), arm=of.Box(-1, 1, (3,))
    )
    action_space = of.Box(-1, 1, (1,))


class Missing(gymnasium.Env):
    def __init__(self):
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed, run pip")


@pytest.mark.parametrize(("wraps", "frame_stack"), [((), 3), (("my.FrameStack:4",), 1)])
def test_a_project_that_sees_has_settings_for_images(folder, wraps, frame_stack):
    gymnasium.register("Camera-v0", entry_point=Camera)
    environment = try_environment(EnvironmentId("gymnasium", "Camera-v0", 500))
    text = params_text("", "camera", environment, EnvironmentOptions.parse(wrap=wraps))
    assert ("frame_stack = 3" in text) == (frame_stack == 3)
    assert "n_episodes_in_buffer = 100\n" in text  # 50,000 images


def test_a_package_of_gymnasium_that_is_missing_is_named_with_its_extra(folder):
    gymnasium.register("Missing-v0", entry_point=Missing)
    with pytest.raises(
        ConfigError, match=r"MuJoCo is not installed.* Here: \./setup.sh --with mujoco"
    ):
        try_environment(EnvironmentId("gymnasium", "Missing-v0", 500))


@pytest.mark.parametrize(
    ("env", "expected"),
    [("CartPole-v1", (-3.0, 3e-3, 0.02, 3e-4, 1e-3)),
     ("gym:Acrobot-v1", (-3.0, 3e-3, 0.02, 3e-4, 1e-3)),
     ("Pendulum-v1", (0.0, 3e-4, 0.005, 3e-4, 3e-4))],
)  # fmt: skip
def test_settings_for_discrete_actions_differ(folder, env, expected):
    for name in ("trained", "written"):  # by sac train --env, and by sac new
        if name == "trained":
            project_of(env, name)
        else:
            new(name, from_=env)
        config = load_env_config(folder / f"{name}_config.json")
        params = load_params(folder / f"{name}_params.py", config, [])
        assert (
            params.sac_log_alpha, params.alpha_learning_rate, params.target_update_tau,
            params.actor_learning_rate, params.critic_learning_rate,
        ) == expected  # fmt: skip
        assert params.actor_fc_layer_params == params.critic_joint_fc_layer_params == (256, 256)


def test_without_options_a_project_is_written_for_actions_that_are_yet_to_be_converted(folder):

    class Speaker(gymnasium.Env):
        action_space, observation_space = of.Text(2), of.Box(-1, 1, (4,))

    gymnasium.register("Speaker-v0", entry_point=Speaker)
    new("speaker", from_="Speaker-v0")
    with pytest.raises(ConfigError, match="The actions of Speaker-v0 are Text"):
        new("loud", from_="Speaker-v0", horizon=10)
    assert len(list(folder.glob("speaker_*"))) == 3
    assert list(folder.glob("loud_*")) == []
