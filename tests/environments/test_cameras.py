"""What films are seen through, in real environments."""

import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.environments import wrappers
from undisplayed import run_undisplayed

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, gym_adapter, pybullet_adapter
from tfagents_system.evaluation.evaluator import choose_camera

MUJOCO = """
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import {module}

environment = {module}.load({arguments})
try:
    environment.set_camera("nowhere")
except ConfigError as error:
    print(error)
environment.reset()
try:
    frames = []
    for camera in ("-1", "0", {name!r}):
        environment.set_camera(camera)
        frames.append(environment.render().tobytes())
    print(frames[0] != frames[1], frames[1] == frames[2])
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "arguments", "name", "cameras"),
    [
        ("dm_control_adapter", "'cheetah', 'run', camera='back'", "side",
         "Cheetah has no camera 'nowhere'. There are: -1 (free), 0 (side), 1 (back)."),
        ("gymnasium_adapter", "'Hopper-v5'", "track",
         "HopperEnv has no camera 'nowhere'. There are: -1 (free), 0 (track)."),
    ],
)  # fmt: skip
def test_cameras_of_mujoco_by_name_and_id(module, arguments, name, cameras):
    pytest.importorskip("mujoco")
    pytest.importorskip(module.removesuffix("_adapter"))
    done = run_undisplayed(MUJOCO.format(module=module, arguments=arguments, name=name))
    assert done.stdout.splitlines() == [cameras, "True True"], done.stderr


@pytest.mark.parametrize(
    ("camera", "camera_id"), [("-1", -1), ("0", 0), ("1", 1), ("top", 1), ("2", 2)]
)
def test_camera_without_a_name_has_its_id_alone(camera, camera_id):
    assert adapter.mujoco_camera(camera, ["", "top", ""], "Arm") == camera_id


@pytest.mark.parametrize("camera", ["", "3", "-2", "1.0", "Top"])
def test_unknown_camera_is_refused_with_those_that_there_are(camera):
    with pytest.raises(ConfigError) as error:
        adapter.mujoco_camera(camera, ["", "top", ""], "Arm")
    assert str(error.value) == (
        f"Arm has no camera {camera!r}. There are: -1 (free), 0, 1 (top), 2."
    )


def test_camera_of_pybullet_turns_around_the_robot():
    pytest.importorskip("pybullet")
    environment = pybullet_adapter.load("HopperBulletEnv-v0", seed=0, camera="0,-30,3")
    own = pybullet_adapter.load("HopperBulletEnv-v0", seed=0)
    try:
        for each in (environment, own):
            each.reset()
        own_frame = own.render()
        np.testing.assert_array_equal(environment.render(), own_frame)  # those are its own
        environment.set_camera("90,-10,2")
        assert (environment.render() != own_frame).any()
        for camera in ("side", "1,2", "0,0,0", "0,0,nan", "inf,0,1"):
            with pytest.raises(ConfigError, match="expected yaw,pitch,distance.*is 90,-10,2"):
                environment.set_camera(camera)
    finally:
        environment.close()
        own.close()


def test_environment_without_cameras_says_who_has_some():
    for environment in (gym_adapter.load("Pendulum-v1"), CountingEnv()):
        with pytest.raises(ConfigError, match=r"Env has no choice of cameras \(asked for: 'a'\)"):
            choose_camera(environment, "a")


class OwnCameraEnv(CountingEnv):
    camera = ""

    def set_camera(self, camera):
        self.camera = camera


def test_environment_with_a_method_of_its_own_is_handed_the_camera(monkeypatch):
    own = OwnCameraEnv()
    choose_camera(wrappers.PyEnvironmentBaseWrapper(own), "a")
    assert own.camera == "a"
    environment, cameras = gym_adapter.load("Pendulum-v1"), []
    monkeypatch.setattr(environment.gym.unwrapped, "set_camera", cameras.append, raising=False)
    choose_camera(environment, "b")
    assert cameras == ["b"]
