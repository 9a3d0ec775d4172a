import numpy as np
import pytest
from tf_agents.environments import py_environment, utils
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import gym_adapter
from tfagents_system.environments.partial_observation import (
    DropObservations,
    FirstObservationOnly,
    KeepObservations,
    LastAction,
    ObservationDropout,
    ObservationStack,
)
from tfagents_system.films.playback import playback_of
from tfagents_system.policies.acting import RandomPolicy


class Counter(py_environment.PyEnvironment):
    """Observes [step + 1, 10 (step + 1), 100 (step + 1)] in one array; ends after 3 steps."""

    dt = 0.05

    def __init__(self):
        super().__init__(handle_auto_reset=True)
        self._observation = np.zeros(3, np.float32)
        self.log = []

    def observation_spec(self):
        return array_spec.BoundedArraySpec([3], np.float32, [1, 10, 100], [4, 40, 400])

    def action_spec(self):
        return array_spec.BoundedArraySpec([2], np.float32, -2.0, 3.0)

    def _observe(self):
        self._observation[:] = np.array([1, 10, 100]) * (1 + self._index)
        return self._observation

    def _reset(self):
        self._index = 0
        return ts.restart(self._observe())

    def _step(self, action):
        self._index += 1
        if self._index == 3:
            return ts.truncation(self._observe(), -1.5)
        return ts.transition(self._observe(), 0.5)

    def seed(self, seed):
        self.log.append(("seed", seed))

    def set_state(self, state):
        self.log.append(("set_state", state))

    def get_info(self):
        return {"success": True}

    def render(self, mode="rgb_array"):
        return np.full([2, 2, 3], 7, np.uint8)


class Parts(Counter):
    """Observes a dict."""

    def observation_spec(self):
        return {name: array_spec.ArraySpec([1], np.float32) for name in ("position", "velocity")}

    def _observe(self):
        return {"position": np.float32([self._index]), "velocity": np.float32([-self._index])}


ACTIONS = [np.float32([0.5, -1]), np.float32([1, 2]), np.float32([-2, 3])]


def episode(environment, num_steps=3):
    """Observations of one episode."""
    steps = [environment.reset(), *(environment.step(action) for action in ACTIONS[:num_steps])]
    return [step.observation for step in steps]


def lists(observations):
    return [np.asarray(observation).tolist() for observation in observations]


@pytest.mark.parametrize(
    "environment",
    [KeepObservations(Counter(), [2, 0]), DropObservations(KeepObservations(Counter(), [2, 1, 0]),
                                                           [1])],
)  # fmt: skip
def test_entries_that_are_kept_are_in_the_order_given(environment):
    assert lists(episode(environment)) == [[100, 1], [200, 2], [300, 3], [400, 4]]
    spec = environment.observation_spec()
    assert (spec.shape, spec.dtype) == ((2,), np.float32)
    assert (spec.minimum.tolist(), spec.maximum.tolist()) == ([100, 1], [400, 4])


def test_one_key_of_a_dict_is_left_as_an_array_and_several_as_a_dict():
    for environment in (
        KeepObservations(Parts(), ["velocity"]),
        DropObservations(Parts(), ["position"]),
    ):
        assert environment.observation_spec().shape == (1,)
        assert lists(episode(environment)) == [[0], [-1], [-2], [-3]]
    both = KeepObservations(Parts(), ["velocity", "position"])
    assert list(both.observation_spec()) == ["velocity", "position"]
    assert both.reset().observation == {"velocity": [0], "position": [0]}


def test_the_last_action_is_what_the_policy_chose_whatever_the_environment_writes_into_it():
    class Scribbler(Counter):
        def _step(self, action):
            action *= 5
            return super()._step(action)

    environment = LastAction(KeepObservations(Scribbler(), [0]))
    environment.reset()
    action = np.float32([0.5, -1])
    assert environment.step(action).observation.tolist() == [2, 0.5, -1]
    assert action.tolist() == [0.5, -1]


def test_the_last_action_is_the_one_that_a_person_took():
    class Shared(Counter):
        def get_info(self):
            return {"action": self.taken}

    shared = Shared()
    environment = LastAction(KeepObservations(shared, [0]))
    environment.reset()
    taken = [(None, [0.5, -1]), (np.array([0.25, 2]), [0.25, 2]), (np.zeros(3), [0.5, -1])]
    for reported, expected in taken:
        shared.taken = reported
        assert environment.step(np.float32([0.5, -1])).observation[1:].tolist() == expected


def test_last_action_and_reward_are_zero_after_a_reset():
    environment = LastAction(KeepObservations(Counter(), [0]), with_reward=True)
    expected = [[1, 0, 0, 0], [2, 0.5, -1, 0.5], [3, 1, 2, 0.5], [4, -2, 3, -1.5]]
    for _ in range(2):
        assert lists(episode(environment)) == expected
    reset_by_step = environment.step(ACTIONS[0])  # after the last step
    assert reset_by_step.is_first() and reset_by_step.observation.tolist() == expected[0]
    spec = LastAction(Counter()).observation_spec()
    assert (spec.minimum.tolist(), spec.maximum.tolist()) == (
        [1, 10, 100, -2, -2], [4, 40, 400, 3, 3]
    )  # fmt: skip


def test_stack_is_oldest_first_and_zero_before_the_start():
    environment = ObservationStack(KeepObservations(Counter(), [0, 1]), 3)
    for _ in range(2):
        assert lists(episode(environment)) == [
            [0, 0, 0, 0, 1, 10], [0, 0, 1, 10, 2, 20], [1, 10, 2, 20, 3, 30],
            [2, 20, 3, 30, 4, 40],
        ]  # fmt: skip
    spec = environment.observation_spec()
    assert (spec.minimum.tolist(), spec.maximum.tolist()) == ([0] * 6, [4, 40] * 3)
    alone = ObservationStack(Counter(), 1)
    assert lists(episode(alone)) == [[k, 10 * k, 100 * k] for k in (1, 2, 3, 4)]


def test_first_observation_alone_shows_hidden_entries():
    environment = FirstObservationOnly(Counter(), [1, 2])
    for _ in range(2):
        assert lists(episode(environment)) == [[1, 10, 100], [2, 0, 0], [3, 0, 0], [4, 0, 0]]
    assert environment.observation_spec().minimum.tolist() == [0, 0, 0]


def lost(environment, num_episodes=500):
    return np.array([
        observation[0] == 0 for _ in range(num_episodes) for observation in episode(environment)
    ])  # fmt: skip


def test_dropout_loses_whole_observations_as_often_as_told_and_by_the_seed():
    environment = ObservationDropout(Counter(), 0.25, seed=3)
    found = lost(environment)
    # 2000 draws: the standard deviation of their mean is sqrt(1/4 x 3/4 / 2000) < 0.01.
    assert abs(found.mean() - 0.25) < 3 * 0.01
    np.testing.assert_array_equal(found, lost(ObservationDropout(Counter(), 0.25, seed=3)))
    assert (found != lost(ObservationDropout(Counter(), 0.25, seed=4))).any()
    environment.seed(3)
    np.testing.assert_array_equal(found, lost(environment))
    assert environment.log == [("seed", 3)]
    assert not lost(ObservationDropout(Counter(), 0.0)).any()
    assert environment.observation_spec().minimum.tolist() == [0, 0, 0]
    both = ObservationDropout(Parts(), 0.99, seed=1)
    assert both.reset().observation == {"position": [0], "velocity": [0]}


class Masked(Parts):
    """Forbids the first of two integers."""

    def observation_spec(self):
        mask = array_spec.BoundedArraySpec([2], np.float32, 0, 1)
        return {**super().observation_spec(), "action_mask": mask}

    def _observe(self):
        return {**super()._observe(), "action_mask": np.float32([0, 1])}


@pytest.mark.parametrize(
    ("wrap", "kept"),
    [
        (lambda e: ObservationDropout(e, 0.99, seed=1), ["position", "velocity"]),
        (lambda e: KeepObservations(e, ["velocity"]), ["velocity"]),
        (lambda e: KeepObservations(e, ["velocity", "position"]), ["position", "velocity"]),
        (lambda e: KeepObservations(e, ["action_mask", "velocity"]), ["velocity"]),
        (lambda e: DropObservations(e, ["velocity"]), ["position"]),
    ],
)
def test_a_mask_of_actions_is_not_lost(wrap, kept):
    environment = wrap(Masked())
    assert set(environment.observation_spec()) == {*kept, "action_mask"}
    for observation in (environment.reset().observation, environment.step(ACTIONS[0]).observation):
        assert set(observation) == {*kept, "action_mask"}
        assert observation["action_mask"].tolist() == [0, 1]


def test_what_is_lost_does_not_depend_on_what_the_environment_draws():
    draws = [np.random.default_rng(seed).random() for seed in range(300)]
    found = [lost(ObservationDropout(Counter(), 0.5, seed=seed), 1)[0] for seed in range(300)]
    # The difference of two means of 150 draws of 0 or 1 deviates by sqrt(2 / 4 / 150) < 0.06.
    small = np.array(draws) < 0.5
    assert abs(np.mean(found, where=small) - np.mean(found, where=~small)) < 3 * 0.06


WRAPPERS = [
    lambda e: KeepObservations(e, [0]), lambda e: DropObservations(e, [0]), LastAction,
    lambda e: FirstObservationOnly(e, [0]), lambda e: ObservationStack(e, 2),
    lambda e: ObservationDropout(e, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_everything_else_passes_through(wrap):
    inner = Counter()
    environment = wrap(inner)
    environment.reset()
    steps = [environment.step(action) for action in ACTIONS]
    assert [float(step.reward) for step in steps] == [0.5, 0.5, -1.5]
    assert [float(step.discount) for step in steps] == [1, 1, 1] and steps[-1].is_last()
    environment.set_state({"mass": 2})
    environment.seed(5)
    assert inner.log == [("set_state", {"mass": 2}), ("seed", 5)]
    assert environment.get_info() == {"success": True}
    assert environment.render().tolist() == np.full([2, 2, 3], 7).tolist()
    assert environment.dt == 0.05 and playback_of(environment).frames_per_sec == 20
    pendulum = wrap(gym_adapter.load("Pendulum-v1", seed=1))
    assert playback_of(pendulum).frames_per_sec == 1 / 0.05  # found in gym's own environment
    utils.validate_py_environment(pendulum, episodes=1)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_an_observation_does_not_change_with_the_next_step(wrap):
    environment = wrap(gym_adapter.load("Pendulum-v1", seed=1))
    policy = RandomPolicy(environment.action_spec(), 1)
    time_step = environment.reset()
    before = time_step.observation.copy()
    environment.step(policy.action(time_step, ())[0])
    np.testing.assert_array_equal(time_step.observation, before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KeepObservations(Counter(), [3]), "KeepObs.* no index 3; expected 0 to 2"),
        (lambda: DropObservations(Counter(), [-1]), "DropObs.* no index -1; expected 0 to 2"),
        (lambda: KeepObservations(Counter(), ["x"]), "no index 'x'"),
        (lambda: KeepObservations(Counter(), [1, 1]), r"parts are \[1, 1\]; .* each once"),
        (lambda: DropObservations(Counter(), [0, 1, 2]), r"parts are \[\]; expected one"),
        (lambda: KeepObservations(Parts(), ["velocty"]), "'velocty'. Did you mean velocity"),
        (lambda: DropObservations(Parts(), [0]), "no key 0. Allowed: position, velocity"),
        (lambda: KeepObservations(Masked(), ["action_mask"]), "KeepObs.* only 'action_mask' is"),
        (lambda: DropObservations(Masked(), ["action_mask"]), "DropObs.* needs 'action_mask'"),
        (lambda: DropObservations(Masked(), ["position", "velocity"]), "only 'action_mask' is"),
        (lambda: LastAction(Parts()), "LastAction needs an observation .* vector.* a dict"),
        (lambda: FirstObservationOnly(Parts(), ["velocity"]), "vector of floats; .* a dict"),
        (lambda: ObservationStack(gym_adapter.load("Taxi-v3"), 2), r"vector .* int64 \[\]"),
        (lambda: LastAction(gym_adapter.load("CartPole-v1")), r"needs an action .* int64 \[\]"),
        (lambda: ObservationStack(Counter(), 0), "k is 0; expected 1 or more"),
        (lambda: ObservationDropout(Counter(), 1.0), "probability is 1.0; expected 0 <= p < 1"),
        (lambda: ObservationDropout(Counter(), -0.1), "probability is -0.1"),
    ],
)
def test_misuse_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
