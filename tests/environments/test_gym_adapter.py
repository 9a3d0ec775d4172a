import os
import subprocess
import sys

import gym
import numpy as np
import pygame
import pytest
from tf_agents.environments import utils

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import gym_adapter


class Counter(gym.Env):
    """Observes the number of steps (float64) and terminates after `num_steps`; reward is 2 each."""

    observation_space = gym.spaces.Box(0.0, 1000.0, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, num_steps=1000):
        self._num_steps = num_steps
        self._buffer = np.zeros(1)  # one buffer, overwritten in each step
        self.state = {"slope": 0.0}
        self.num_closed = 0

    def reset(self):
        self._buffer[0] = 0
        return self._buffer

    def step(self, action):
        self._buffer[0] += 1
        done = self._buffer[0] >= self._num_steps
        return self._buffer, 2.0, done, {"count": int(self._buffer[0])}

    def set_state(self, state):
        self.state = state

    def get_state(self):
        return self.state

    def close(self):
        self.num_closed += 1


class Bare(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self):
        return np.zeros(1)


@pytest.fixture
def register():
    ids = []

    def add(name, **kwargs):
        gym.register(name, **kwargs)
        ids.append(name)

    yield add
    for name in ids:
        del gym.envs.registry.env_specs[name]


def limited(num_steps, limit):
    return gym_adapter.GymEnvironment(gym.wrappers.TimeLimit(Counter(num_steps), limit))


def episode(environment, action=(0.0,)):
    """Time steps of one episode, with the first one."""
    steps = [environment.reset()]
    while not steps[-1].is_last():
        steps.append(environment.step(np.array(action, np.float32)))
    return steps


@pytest.mark.parametrize(
    ("num_steps", "limit", "length", "last_discount"),
    [
        (10, 3, 3, 1.0),  # time limit
        (3, 10, 3, 0.0),  # termination
        (3, 3, 3, 0.0),  # termination on the last step allowed
    ],
)
def test_last_discount_tells_time_limits_from_terminations(num_steps, limit, length, last_discount):
    steps = episode(limited(num_steps, limit))
    assert [int(step.step_type) for step in steps] == [0] + [1] * (length - 1) + [2]
    assert [float(step.discount) for step in steps] == [1.0] * length + [last_discount]
    assert [float(step.reward) for step in steps] == [0.0] + [2.0] * length


def test_time_steps_have_the_dtypes_of_the_spec_and_own_their_observations():
    environment = limited(10, 3)
    spec = environment.time_step_spec()
    steps = episode(environment)
    for step in steps:
        assert step.step_type.dtype == spec.step_type.dtype == np.int32
        assert step.reward.dtype == spec.reward.dtype == np.float32
        assert step.discount.dtype == spec.discount.dtype == np.float32
        assert step.observation.dtype == spec.observation.dtype == np.float32
        assert step.reward.shape == step.discount.shape == step.step_type.shape == ()
    assert [step.observation.tolist() for step in steps] == [[0.0], [1.0], [2.0], [3.0]]


def test_environment_passes_the_validation_of_tf_agents():
    utils.validate_py_environment(limited(5, 3), episodes=3)


def test_step_after_the_last_resets_and_ignores_the_action():
    environment = limited(10, 2)
    episode(environment)
    step = environment.step(np.array([99.0], np.float32))
    assert step.is_first() and step.observation.tolist() == [0.0]


def test_first_step_without_reset_resets():
    assert limited(10, 2).step(np.zeros(1, np.float32)).is_first()


def test_get_info_is_that_of_the_last_step():
    environment = limited(10, 2)
    assert environment.get_info() == {}
    environment.reset()
    assert environment.get_info() == {}
    environment.step(np.zeros(1, np.float32))
    assert environment.get_info() == {"count": 1}
    environment.step(np.zeros(1, np.float32))
    assert environment.get_info() == {"count": 2, "TimeLimit.truncated": True}


def test_equal_nested_time_limits_are_refused():
    env = gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(Counter(), 5), 5)
    with pytest.raises(ConfigError, match=r"Counter is wrapped in TimeLimits of \[5, 5\]"):
        gym_adapter.GymEnvironment(env)


def test_set_state_and_get_state_reach_the_unwrapped_environment():
    environment = limited(10, 3)
    environment.set_state({"slope": 0.25})
    assert environment.gym.unwrapped.state == {"slope": 0.25}
    assert environment.get_state() == {"slope": 0.25}


def test_missing_set_state_names_class_and_signature():
    environment = gym_adapter.GymEnvironment(Bare())
    with pytest.raises(ConfigError, match=r"Bare has no set_state.* set_state\(self, state: dict"):
        environment.set_state({"slope": 1.0})
    with pytest.raises(ConfigError, match="Bare has no get_state"):
        environment.get_state()


def test_set_state_of_another_signature_is_refused():
    class Simulator(Bare):
        def set_state(self, positions, velocities): ...

    with pytest.raises(ConfigError, match=r"Simulator.set_state\(positions, velocities\) cannot"):
        gym_adapter.GymEnvironment(Simulator()).set_state({"slope": 1.0})


def test_observation_that_contradicts_its_space_is_refused_at_reset():
    class Wrong(Bare):
        def reset(self):
            return np.zeros(2)

    with pytest.raises(ConfigError, match=r"Wrong declares observation with shape \(1,\)"):
        gym_adapter.GymEnvironment(Wrong()).reset()


def test_close_closes_once():
    environment = limited(10, 3)
    environment.close()
    environment.close()
    assert environment.gym.unwrapped.num_closed == 1


def test_pendulum_ends_by_its_registered_time_limit():
    steps = episode(gym_adapter.load("Pendulum-v1", seed=3))
    assert len(steps) == 1 + 200
    assert all(step.is_mid() for step in steps[1:-1])
    assert steps[-1].is_last() and steps[-1].discount == 1.0


def test_max_episode_steps_replaces_the_registered_limit_in_both_directions():
    for limit in (7, 250):
        steps = episode(gym_adapter.load("Pendulum-v1", max_episode_steps=limit))
        assert len(steps) == 1 + limit and steps[-1].discount == 1.0
    assert gym.spec("Pendulum-v1").max_episode_steps == 200


def test_load_passes_gym_kwargs_and_keeps_no_other_wrapper_than_the_limit(register):
    register("CounterTest-v0", entry_point=Counter, max_episode_steps=50)
    environment = gym_adapter.load("CounterTest-v0", gym_kwargs={"num_steps": 4})
    assert type(environment.gym) is gym.wrappers.TimeLimit
    assert type(environment.gym.env) is Counter
    assert len(episode(environment)) == 1 + 4


def test_same_seed_gives_the_same_episodes():
    def observations(seed):
        environment = gym_adapter.load("Pendulum-v1", seed=seed, max_episode_steps=20)
        steps = episode(environment, [0.5]) + episode(environment, [0.5])
        return np.stack([step.observation for step in steps])

    np.testing.assert_array_equal(observations(5), observations(5))
    np.testing.assert_array_equal(observations(np.int64(5)), observations(5))
    assert np.abs(observations(5) - observations(6)).max() > 0.01
    first, second = np.split(observations(5), 2)
    assert np.abs(first - second).max() > 0.01  # the second reset goes on in the random numbers


def test_seed_matches_that_of_gym_itself():
    environment = gym_adapter.load("Pendulum-v1", seed=5)
    expected = gym.make("Pendulum-v1").reset(seed=5)
    np.testing.assert_array_equal(environment.reset().observation, expected)


@pytest.mark.parametrize("takes_seed", [False, True])
def test_seed_reaches_environments_of_the_old_and_the_new_style(takes_seed):
    class Old(Bare):
        seeds = []

        def seed(self, seed=None):
            self.seeds.append(("seed", seed))

    class New(Bare):
        seeds = []

        def reset(self, seed=None):
            self.seeds.append(("reset", seed))
            return np.zeros(1)

    env = New() if takes_seed else Old()
    environment = gym_adapter.GymEnvironment(env, seed=4)
    environment.reset()
    environment.reset()
    assert env.seeds == ([("reset", 4), ("reset", None)] if takes_seed else [("seed", 4)])


def test_unknown_id_names_the_nearest():
    with pytest.raises(ConfigError, match="'Pendulumm-v1' .* Nearest registered: Pendulum-v1"):
        gym_adapter.load("Pendulumm-v1")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_package:Pendulum-v1", "No module named 'no_such_package'"),
        ("needing_another:Pendulum-v1", "No module named 'no_such_package'"),
        (":Pendulum-v1", "Empty module name"),
        (".package:Pendulum-v1", "relative import"),
    ],
)
def test_a_package_of_an_id_that_cannot_be_imported_is_named_with_the_reason(
    name, reason, tmp_path, monkeypatch
):
    (tmp_path / "needing_another.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = name.partition(":")[0]
    with pytest.raises(ConfigError, match=f"Cannot import '{package}', .* '{name}': .*{reason}"):
        gym_adapter.load(name)


def test_the_package_of_an_id_is_imported(tmp_path, monkeypatch):
    (tmp_path / "registering.py").write_text("is_imported = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert gym_adapter.load("registering:Pendulum-v1").observation_spec().shape == (3,)
    assert sys.modules.pop("registering").is_imported


def test_wrong_gym_kwargs_are_refused():
    with pytest.raises(ConfigError, match="Cannot make Pendulum-v1 .*'gravity': 3.*gravity"):
        gym_adapter.load("Pendulum-v1", gym_kwargs={"gravity": 3})


def test_pendulum_renders_without_a_display(monkeypatch):
    pytest.importorskip("pygame", reason="pygame draws the pendulum")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(variable, "")  # remembered, so that it is undone
        monkeypatch.delenv(variable)
    environment = gym_adapter.load("Pendulum-v1", seed=0)
    environment.reset()
    frame = environment.render()
    assert (frame.shape, frame.dtype) == ((500, 500, 3), np.uint8)
    assert frame.min() < frame.max()
    environment.close()


@pytest.mark.parametrize("display", ["", ":99"])
def test_a_film_needs_no_display_and_a_display_that_is_set_may_be_gone(display):
    script = """
from tfagents_system.environments import gym_adapter

environment = gym_adapter.load("Pendulum-v1", seed=1)
environment.reset()
print(environment.render().shape)
"""
    without = ("WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER")
    environ = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ | {"DISPLAY": display}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["(500, 500, 3)"], done.stderr


def test_a_window_of_pygame_that_is_there_keeps_its_driver(monkeypatch):
    for name in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "SDL_NO_SIGNAL_HANDLERS"):
        monkeypatch.setenv(name, "")  # to be as it was in the end
        monkeypatch.delenv(name)
    environment = gym_adapter.load("Pendulum-v1", seed=1)
    environment.reset()
    monkeypatch.setattr(environment._env.unwrapped, "render", lambda mode: np.zeros((2, 2, 3)))
    monkeypatch.setattr(pygame.display, "get_init", lambda: True)
    environment.render()
    assert "SDL_VIDEODRIVER" not in os.environ
    monkeypatch.setattr(pygame.display, "get_init", lambda: False)
    environment.render()
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"
