"""Sources of masks of actions, and their checks."""

import gymnasium
import numpy as np
import pytest
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import Choices, input_spec, without_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.train_params_base import TrainParamsBase

SIZE = 4


class Base(gymnasium.Env):
    """Integer k is allowed at env step t if k <= t; the episode ends after three."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(SIZE)

    def mask(self):
        return np.arange(SIZE) <= self.t

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.x = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen(), self.info()

    def step(self, action):
        assert self.mask()[action]
        self.t += 1
        return self.seen(), 0.0, self.t == 3, False, self.info()

    def seen(self):
        return self.x

    def info(self):
        return {}


class InInfo(Base):
    def info(self):
        return {"action_mask": self.mask().astype(np.int8)}


class ByMethod(Base):
    def action_masks(self):
        return self.mask()


class InObservation(Base):
    observation_space = gymnasium.spaces.Dict(
        x=Base.observation_space, action_mask=gymnasium.spaces.MultiBinary(SIZE)
    )

    def seen(self):
        return {"x": self.x, "action_mask": self.mask().astype(np.int8)}


def environment_of(made, seed=1, times=1):
    class Params(TrainParamsBase):
        action_repeat = times

        def env_ctor(self, *args, seed=None, **kwargs):
            return made

    return make_collect_environment(Params({"horizon": 3}), seed)


@pytest.mark.parametrize("cls", [InInfo, ByMethod, InObservation])
def test_a_mask_of_any_source_is_a_leaf_of_the_observation(cls):
    environment = environment_of(cls())
    spec = environment.observation_spec()
    key = "x" if cls is InObservation else "observation"
    assert list(spec) == [key, "action_mask"]
    assert (spec["action_mask"].shape, spec["action_mask"].dtype) == ((SIZE,), np.float32)
    time_step = environment.reset()
    for t in range(3):
        assert time_step.observation["action_mask"].tolist() == [int(k <= t) for k in range(SIZE)]
        assert time_step.observation["action_mask"].dtype == np.float32
        time_step = environment.step(t)
    assert time_step.is_last() and time_step.discount == 0


def test_an_environment_without_a_mask_stays_as_it_is():
    assert environment_of(Base()).observation_spec().shape == (2,)


@pytest.mark.parametrize("cls", [InInfo, Base])
def test_looking_for_a_mask_changes_no_episode(cls):
    expected = Base().reset(seed=7)[0]
    observation = environment_of(cls(), seed=7).reset().observation
    found = observation["observation"] if isinstance(observation, dict) else observation
    np.testing.assert_array_equal(found, expected)


def test_a_mask_may_be_missing_in_the_info_of_the_last_step_alone():
    class Ended(InInfo):
        missing_at = 3

        def info(self):
            return {} if self.t == self.missing_at else super().info()

    environment = environment_of(Ended())
    environment.reset()
    last = [environment.step(t) for t in range(3)][-1]
    assert last.is_last() and last.observation["action_mask"].tolist() == [1.0] * SIZE

    Ended.missing_at = 2
    environment.reset()
    environment.step(0)
    with pytest.raises(ConfigError, match="The action mask is None at env step 2 of the episode"):
        environment.step(1)


def test_a_masked_action_is_not_repeated():
    with pytest.raises(ConfigError, match="action_repeat is 2, but the environment has masks"):
        environment_of(InInfo(), times=2)
    assert environment_of(Base(), times=2).observation_spec().shape == (2,)


class Given(Base):
    """Its masks are given, one for each observation of an episode."""

    def __init__(self, *masks):
        self.masks = masks

    def info(self):
        return {"action_mask": self.masks[self.t]}

    def step(self, action):
        self.t += 1
        is_over = self.t + 1 == len(self.masks)
        return self.seen(), 0.0, False, is_over, self.info()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([0] * SIZE, r"The action mask allows no action at env step 1 of the episode\."),
        ([1] * 3, r"The action mask is .* at env step 1 of the episode; expected 4 numbers"),
        ([2] * SIZE, "expected 4 numbers, 1 for each integer that the action may have"),
        (None, "The action mask is None at env step 1 of the episode"),
        ("no", "The action mask is 'no' at env step 1 of the episode"),
    ],
)
def test_a_wrong_mask_is_named_with_the_env_step(mask, message):
    environment = environment_of(Given(np.ones(SIZE), mask, np.ones(SIZE)))
    environment.reset()
    with pytest.raises(ConfigError, match=message):
        environment.step(0)


def test_at_the_end_of_an_episode_nothing_need_be_allowed():
    environment = environment_of(Given(np.ones(SIZE), np.zeros(SIZE)))
    environment.reset()
    time_step = environment.step(0)
    assert time_step.is_last()
    assert time_step.observation["action_mask"].tolist() == [1] * SIZE


class TwoBranches(Base):
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def info(self):  # a tuple, as gymnasium's spaces take masks
        return {"action_mask": (np.array([0, 1], np.int8), np.array([1, 0, 0], np.int8))}


def test_branches_are_joined_and_an_empty_one_is_named():
    environment = environment_of(TwoBranches())
    assert environment.reset().observation["action_mask"].tolist() == [0, 1, 1, 0, 0]
    TwoBranches.info = lambda self: {"action_mask": np.array([0, 1, 0, 0, 0])}
    with pytest.raises(ConfigError, match="allows no action for its entry 1 at env step 0"):
        environment.reset()


def test_random_actions_are_allowed_ones_of_all_leaves():
    spec = {
        "a": array_spec.BoundedArraySpec([], np.int64, 5, 8),
        "b": array_spec.BoundedArraySpec([1], np.float32, -1, 1),
        "c": array_spec.BoundedArraySpec([2], np.int32, [0, 0], [1, 2]),
    }
    mask = np.int8([0, 1, 0, 1] + [1, 0] + [0, 1, 1])
    policy, drawn = RandomPolicy(spec, seed=1), []
    for _ in range(10_000):
        action, _ = policy.action(ts.restart({"x": np.zeros(1), "action_mask": mask}), ())
        assert action["a"].dtype == np.int64 and -1 <= action["b"][0] <= 1
        drawn.append((int(action["a"]), *action["c"].tolist()))
    shares = {choice: drawn.count(choice) / 10_000 for choice in set(drawn)}
    allowed = {(a, 0, c) for a in (6, 8) for c in (1, 2)}
    assert set(shares) == allowed
    np.testing.assert_allclose(list(shares.values()), 1 / 4, atol=5 * 0.5 / 100)


def test_networks_do_not_see_a_mask_of_integers():
    spec = {"x": 1, "action_mask": 2}
    integers = array_spec.BoundedArraySpec([], np.int64, 0, 1)
    assert input_spec(spec, [integers]) == {"x": 1} == without_mask(spec)
    box = array_spec.BoundedArraySpec([1], np.float32, -1, 1)
    assert input_spec(spec, [box]) is spec
    assert Choices([box, integers]).sizes == [2]


class PyMasked(py_environment.PyEnvironment):
    """A user's own PyEnvironment, whose observation has the mask."""

    def observation_spec(self):
        return {
            "x": array_spec.ArraySpec([1], np.float32),
            "action_mask": array_spec.ArraySpec([2], np.float32),
        }

    def action_spec(self):
        return array_spec.BoundedArraySpec([], np.int64, 0, 1)

    def _reset(self):
        return ts.restart({"x": np.zeros(1, np.float32), "action_mask": np.float32([0, 1])})

    def _step(self, action):
        raise NotImplementedError


def test_a_users_own_environment_has_one_in_its_observation():
    environment = environment_of(PyMasked())
    assert environment.observation_spec()["action_mask"].dtype == np.float32
    assert environment.reset().observation["action_mask"].tolist() == [0, 1]
