import os
import subprocess
import sys

import numpy as np
import pytest
from tf_agents.environments import utils
from undisplayed import run_undisplayed

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import dm_control_adapter, headless

suite = pytest.importorskip("dm_control.suite", reason="dm_control is an optional package")
from dm_control.rl import control  # noqa: E402
from dm_control.suite import cartpole  # noqa: E402


class Falls(cartpole.Balance):
    """Terminates after `num_steps`; has a method of the user."""

    def __init__(self, num_steps):
        super().__init__(swing_up=True, sparse=False, random=0)
        self._num_steps = num_steps

    def initialize_episode(self, physics):
        self._step = 0
        super().initialize_episode(physics)

    def get_termination(self, physics):
        self._step += 1
        return 0.0 if self._step >= self._num_steps else None

    def set_state(self, state):
        self.state = state


def falls(num_steps, time_limit=0.05):
    physics = cartpole.Physics.from_xml_string(*cartpole.get_model_and_assets())
    environment = control.Environment(physics, Falls(num_steps), time_limit=time_limit)
    return dm_control_adapter.DmControlEnvironment(environment)


def episode(environment, num_steps=None):
    """Time steps of one episode, with the first one; the action is 0.5."""
    action = np.full(environment.action_spec().shape, 0.5, np.float32)
    steps = [environment.reset()]
    while not steps[-1].is_last() and len(steps) != num_steps:
        steps.append(environment.step(action))
    return steps


@pytest.mark.parametrize(
    ("num_steps", "length", "last_discount"),
    [(100, 5, 1.0), (3, 3, 0.0)],  # 0.05 s in steps of 0.01 s; a termination
)
def test_last_discount_tells_time_limits_from_terminations(num_steps, length, last_discount):
    environment = falls(num_steps)
    assert environment.horizon == 5
    for _ in range(2):
        steps = episode(environment)
        assert [int(step.step_type) for step in steps] == [0] + [1] * (length - 1) + [2]
        assert [float(step.discount) for step in steps] == [1.0] * length + [last_discount]


@pytest.mark.parametrize(
    ("domain", "task", "size"), [("cheetah", "run", 8 + 9), ("cartpole", "swingup", 3 + 2)]
)
def test_task_of_the_suite_gives_vectors_and_ends_at_its_time_limit(domain, task, size):
    environment = dm_control_adapter.load(domain, task, seed=1)
    assert environment.horizon == 1000  # 10 s in steps of 0.01 s
    spec = environment.observation_spec()
    assert (spec.shape, spec.dtype) == ((size,), np.float32)
    steps = episode(environment)
    assert len(steps) == 1 + 1000 and steps[-1].discount == 1.0
    assert steps[-1].observation.dtype == np.float32
    assert all(0 <= step.reward <= 1 for step in steps)


def test_vector_has_the_parts_in_dm_controls_order():
    flat = dm_control_adapter.load("cheetah", "run", seed=1).reset().observation
    nested = dm_control_adapter.load("cheetah", "run", seed=1, flatten_observation=False)
    parts = nested.reset().observation
    assert list(nested.observation_spec()) == ["position", "velocity"]
    assert {part.dtype for part in parts.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(flat, np.concatenate([parts["position"], parts["velocity"]]))


def test_parts_that_are_numbers_are_flattened_too():
    environment = dm_control_adapter.load("walker", "walk", seed=1)  # its height is one number
    assert environment.reset().observation.shape == (14 + 1 + 9,)


def test_environment_passes_the_validation_of_tf_agents():
    environment = dm_control_adapter.load(
        "cartpole", "swingup", seed=1, task_kwargs={"time_limit": 0.2}
    )
    utils.validate_py_environment(environment, episodes=2)


def test_same_seed_gives_the_same_episodes():
    def observations(seed, reseed=None):
        environment = dm_control_adapter.load(
            "cheetah", "run", seed=seed, task_kwargs={"time_limit": 0.1}
        )
        if reseed is not None:
            environment.seed(reseed)
        steps = episode(environment) + episode(environment)
        return np.stack([step.observation for step in steps])

    np.testing.assert_array_equal(observations(5), observations(5))
    np.testing.assert_array_equal(observations(6, reseed=5), observations(7, reseed=5))
    assert np.abs(observations(5) - observations(6)).max() > 0.01


def test_set_state_reaches_the_task():
    environment = falls(3)
    environment.set_state({"slope": 0.25})
    assert environment.gym.unwrapped.state == {"slope": 0.25}


def test_missing_set_state_names_the_task_although_mujocos_physics_has_one():
    with pytest.raises(ConfigError, match="Cheetah has no set_state"):
        dm_control_adapter.load("cheetah", "run").set_state({"slope": 0.25})


def test_images_are_not_flattened():
    class Seen(Falls):
        def get_observation(self, physics):
            return {"pixels": np.zeros((4, 4, 3), np.uint8)}

    physics = cartpole.Physics.from_xml_string(*cartpole.get_model_and_assets())
    environment = control.Environment(physics, Seen(3))
    with pytest.raises(ConfigError, match="Seen observes images"):
        dm_control_adapter.DmControlEnvironment(environment)
    kept = dm_control_adapter.DmControlEnvironment(environment, flatten_observation=False)
    spec = kept.observation_spec()["pixels"]
    assert (spec.shape, spec.dtype, kept.horizon) == ((4, 4, 3), np.uint8, None)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: dm_control_adapter.load("cheeta", "run"), "no task cheeta/run .*cheetah/run"),
        (
            lambda: dm_control_adapter.load("cheetah", "run", task_kwargs={"speed": 3}),
            "Cannot make cheetah/run with task_kwargs={'speed': 3}",
        ),
    ],
)
def test_wrong_names_and_arguments_are_refused(load, message):
    with pytest.raises(ConfigError, match=message):
        load()


def test_without_dm_control_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control", None)
    with pytest.raises(ConfigError, match="--with dm_control"):
        dm_control_adapter.load("cheetah", "run")


def test_no_window_is_promised():
    with pytest.raises(ConfigError, match="dm_control.viewer"):
        falls(3).render("human")


RENDERS = """
import os
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import {module}
environment = {module}.load({arguments}, seed=0)
environment.reset()
try:
    frame = environment.render()
    print(frame.shape, frame.dtype, frame.min() < frame.max())
except ConfigError as error:
    assert os.environ["MUJOCO_GL"] == "disabled"
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "arguments", "shape"),
    [
        ("dm_control_adapter", "'cheetah', 'run'", "(240, 320, 3)"),
        ("gymnasium_adapter", "'Hopper-v5'", "(480, 480, 3)"),
    ],
)
def test_environment_renders_without_a_display(module, arguments, shape):
    done = run_undisplayed(RENDERS.format(module=module, arguments=arguments))
    assert done.stdout == f"{shape} uint8 True\n", done.stderr


def test_without_a_renderer_all_but_rendering_works():
    environ = os.environ | {"MUJOCO_GL": headless.NO_RENDERER}
    script = RENDERS.format(module="dm_control_adapter", arguments="'cartpole', 'swingup'")
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=120
    )
    assert "cannot render: MUJOCO_GL is 'disabled'" in done.stdout, done.stderr


def test_choice_leaves_the_users_alone(monkeypatch):
    for variable, value in [("MUJOCO_GL", "glfw"), ("DISPLAY", ":7")]:
        with monkeypatch.context() as context:
            for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
                context.delenv(name, raising=False)
            context.setenv(variable, value)
            before = dict(os.environ)
            headless.choose_renderer()
            assert dict(os.environ) == before
