import gym
import gymnasium
import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.environments import py_environment, suite_gym, wrappers
from tf_agents.specs import array_spec

from tfagents_system.environments import remarks
from tfagents_system.environments.declared_kinds import DeclaredKinds
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.environments.partial_observation import LastAction


class RunningMeanStd:
    mean, var, count = 0.0, 1.0, 0


class OwnNormalizer(wrappers.PyEnvironmentBaseWrapper):
    def __init__(self, environment):
        super().__init__(environment)
        self._stats = RunningMeanStd()


class OwnGymWrapper(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.running_mean_std = (0.0, 1.0)

    def observation(self, observation):
        return observation


class Holder(py_environment.PyEnvironment):
    """Holds an environment by a name of its own, and is no wrapper of TF-Agents."""

    def __init__(self, inside):
        super().__init__()
        self.simulation = inside

    def observation_spec(self):
        return array_spec.ArraySpec([3], np.float32)

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1, 1)

    def _reset(self):
        raise AssertionError("nothing is run here")

    def _step(self, action):
        raise AssertionError("nothing is run here")


def pendulum():
    return gym.make("Pendulum-v1")


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: GymEnvironment(gym.wrappers.NormalizeObservation(pendulum())),
         "NormalizeObservation.obs_rms"),
        (lambda: GymEnvironment(gym.wrappers.NormalizeReward(pendulum())),
         "NormalizeReward.return_rms"),
        (lambda: LastAction(GymEnvironment(gym.wrappers.TimeLimit(
            gym.wrappers.NormalizeObservation(gym.wrappers.NormalizeReward(pendulum())), 9))),
         "NormalizeObservation.obs_rms, NormalizeReward.return_rms"),
        (lambda: suite_gym.wrap_env(gym.wrappers.NormalizeObservation(pendulum())),
         "NormalizeObservation.obs_rms"),
        (lambda: LastAction(OwnNormalizer(CountingEnv())), "OwnNormalizer._stats"),
        (lambda: GymEnvironment(OwnGymWrapper(pendulum())), "OwnGymWrapper.running_mean_std"),
        (lambda: Holder([OwnNormalizer(CountingEnv())]), "OwnNormalizer._stats"),
        (lambda: Holder(OwnGymWrapper(pendulum())), "OwnGymWrapper.running_mean_std"),
    ],
)  # fmt: skip
def test_learned_statistics_are_named_wherever_they_are_wrapped(make, names):
    remark = remarks.learned_state(make())
    assert f"({names}): each worker its own, and no checkpoint" in remark.text
    assert remark.shown == f"THE ENVIRONMENT LEARNS: {names}"
    assert "set normalize_observations = True" in str(remark)


def test_statistics_of_gymnasium_are_named():
    wrapped = gymnasium.wrappers.NormalizeReward(gymnasium.make("Pendulum-v1"))
    environment = GymnasiumEnvironment(gymnasium.wrappers.NormalizeObservation(wrapped))
    names = "NormalizeObservation.obs_rms, NormalizeReward.return_rms"
    assert f"({names})" in remarks.learned_state(environment).text


@pytest.mark.parametrize(
    "make",
    [
        CountingEnv,
        lambda: LastAction(GymEnvironment(gym.wrappers.RescaleAction(pendulum(), -1, 1))),
        lambda: suite_gym.load("Pendulum-v1"),
    ],
)
def test_environments_that_learn_nothing_give_no_remark(make):
    assert remarks.remarks_on(make(), takes_vectors=True) == []


def observing(spec):
    class Observer(CountingEnv):
        def observation_spec(self):
            return spec

    return Observer()


def array(shape, dtype=np.float32):
    return array_spec.ArraySpec(shape, dtype)


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        (array([84, 84]), "observation, float32 [84, 84]"),
        (array([84, 84, 1], np.int32), "observation, int32 [84, 84, 1]"),
        (array([3, 84, 84], np.int64), "observation, int64 [3, 84, 84]"),
        ({"eye": array([30, 40]), "arm": array([7])}, "observation/eye, float32 [30, 40]"),
    ],
)
def test_an_image_that_would_be_a_vector_is_said(spec, shown):
    (remark,) = remarks.remarks_on(observing(spec), takes_vectors=True)
    assert remark.shown == f"IMAGE TAKEN FOR A VECTOR? {shown}"
    shape = [int(side) for side in shown[shown.index("[") + 1 : -1].split(",")]
    assert f"is taken for a vector of {np.prod(shape):,} numbers" in remark.text
    name, layout = "eye" if isinstance(spec, dict) else "observation", "HWC"
    layout = "HW" if len(shape) == 2 else "CHW" if shape[0] == 3 else "HWC"
    assert f"If it is an image, set image_layouts = {{'{name}': '{layout}'}}; if " in remark.advice
    assert remarks.remarks_on(observing(spec), takes_vectors=False) == []
    for chosen in (layout, "vector"):
        environment = DeclaredKinds(observing(spec), {name: chosen}, [], [])
        assert remarks.remarks_on(environment, takes_vectors=True) == []


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        (array([4, 96, 90, 3], np.uint8), "uint8 [4, 96, 90, 3]"),  # FrameStackObservation
        (array([4, 3, 84, 84]), "float32 [4, 3, 84, 84]"),
        (array([4, 84, 84, 1], np.int32), "int32 [4, 84, 84, 1]"),
    ],
)
def test_frames_of_a_wrapper_that_would_be_a_vector_are_said(spec, shown):
    (remark,) = remarks.remarks_on(observing({"eye": spec}), takes_vectors=True)
    assert remark.shown == f"IMAGES TAKEN FOR A VECTOR? observation/eye, {shown}"
    assert f"a vector of {np.prod(spec.shape):,} numbers" in remark.text
    assert (
        "set frame_stack = 4 in TrainParams; if it is a vector, set image_layouts" in remark.advice
    )
    environment = DeclaredKinds(observing({"eye": spec}), {"eye": "vector"}, [], [])
    assert remarks.remarks_on(environment, takes_vectors=True) == []


def test_images_of_booleans_are_said():
    spec = array_spec.BoundedArraySpec([10, 10, 4], np.uint8, 0, 1)  # as of a bool Box
    (remark,) = remarks.remarks_on(observing(spec), takes_vectors=True)
    assert remark.shown == "IMAGE OF ZEROS AND ONES: observation, uint8 [10, 10, 4]"


@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_colors_from_0_to_255_that_are_not_of_uint8_are_said(dtype):
    spec = array_spec.BoundedArraySpec([84, 84, 3], np.dtype(dtype), 0, 255, "observation.HWC")
    (remark,) = remarks.remarks_on(observing(spec), takes_vectors=True)
    assert remark.shown == f"IMAGE OF LARGE NUMBERS: observation, {dtype} [84, 84, 3]"
    assert "as_images.AsImages(environment)" in remark.advice
    for low, high in ((0, 1), (-1, 1), (-np.inf, np.inf)):
        spec = array_spec.BoundedArraySpec([84, 84, 3], np.float32, low, high)
        assert remarks.remarks_on(observing(spec), takes_vectors=True) == []


@pytest.mark.parametrize(
    "spec",
    [
        array([84, 84, 3], np.uint8), array([84, 84], np.uint8),
        array([3, 84, 84]), array([7056]), array([50, 3]), array([2, 3], np.uint8),
        array([10, 10, 3]), array([30, 30, 30]), array([84, 3, 84]), array([5, 8, 8, 3]),
        array([30, 84, 84, 3]), array([5, 84, 84, 3], bool), array([2, 5, 84, 84, 3]),
        array([], np.int64), array([40, 40], bool),
    ],
)  # fmt: skip
def test_images_and_what_has_no_shape_of_one_give_no_remark(spec):
    assert remarks.remarks_on(observing(spec), takes_vectors=True) == []
