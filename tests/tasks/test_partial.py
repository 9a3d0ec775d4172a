"""Each task by its name; those that have a module of ours are tested in detail beside this file."""

import contextlib
import importlib.util
import pathlib
import re

import numpy as np
import pytest
from undisplayed import run_undisplayed

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import dm_control_adapter, gymnasium_adapter, pybullet_adapter
from tfagents_system.films.playback import playback_of
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.tasks import partial

PAGE = pathlib.Path(__file__).parents[2] / "docs/partial_observation.md"
SUITE = re.compile("cartpole-(balance|swingup)|walker")
PIXELS = [name for name, task in partial.TASKS.items() if task.observes_image]


@pytest.fixture
def load():
    """Loads tasks, unless an optional package is missing, and closes them.

    PyBullet's cameras look for the first of its clients: no test may leave one behind.
    """
    with contextlib.ExitStack() as stack:
        yield lambda name, seed: stack.enter_context(load_or_skip(name, seed))


def load_or_skip(name, seed):
    package = "dm_control" if SUITE.match(name) else "mujoco" if "reacher" in name else "gym"
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is an optional package")
    try:
        return partial.load(name, seed=seed)
    except ConfigError as error:
        if "cannot render" not in str(error):
            raise
        pytest.skip("neither EGL nor OSMesa works here")


def episode(environment, num_steps, seed=0):
    """Time steps of an episode, or of its beginning, with random actions."""
    policy = RandomPolicy(environment.action_spec(), seed)
    steps = [environment.reset()]
    while not steps[-1].is_last() and len(steps) <= num_steps:
        steps.append(environment.step(policy.action(steps[-1], ())[0]))
    return steps


@pytest.mark.parametrize("name", [name for name in partial.TASKS if name not in PIXELS])
def test_one_seed_repeats_an_episode_and_another_does_not(name, load):
    num_steps = 20
    if "maze" in name:  # until the swimmer meets the platform, in another place with another seed
        num_steps = 100
    first, second, other = (
        [step.observation for step in episode(load(name, seed), num_steps)] for seed in (1, 1, 2)
    )
    assert len(first) == len(second)
    np.testing.assert_array_equal(first, second)
    assert len(first) != len(other) or np.not_equal(first, other).any()


@pytest.mark.parametrize("name", [name for name in partial.TASKS if name not in PIXELS])
def test_an_episode_has_the_shape_of_its_spec_and_ends_at_the_horizon(name, load):
    environment = load(name, 1)
    horizon = partial.TASKS[name].horizon
    steps = episode(environment, 2 * horizon)
    spec = environment.observation_spec()
    assert all(spec.check_array(step.observation) for step in steps)
    assert spec.dtype == np.float32
    assert steps[-1].is_last()
    assert len(steps) - 1 == horizon if steps[-1].discount == 1 else len(steps) - 1 <= horizon
    if SUITE.match(name) or "reacher" in name:
        return  # MuJoCo draws in a process of its own: see below
    frame = environment.render()
    assert frame.dtype == np.uint8 and frame.shape[2] == 3 and frame.min() < frame.max()


DRAWN = """
import numpy as np
from tfagents_system.core.errors import ConfigError
from tfagents_system.tasks import partial

def frames_of(seed):
    environment = partial.load({name!r}, seed=seed)
    spec, action = environment.observation_spec(), environment.action_spec()
    steps = [environment.reset()]
    for _ in range(5):
        steps.append(environment.step(np.full(action.shape, 0.5, action.dtype)))
    assert all(spec.check_array(step.observation) for step in steps)
    is_image = len(spec.shape) == 3
    return [step.observation for step in steps] if is_image else [environment.render()]

try:
    first, second, other = frames_of(1), frames_of(1), frames_of(2)
except ConfigError as error:
    print(error)
else:
    np.testing.assert_array_equal(first, second)
    assert np.not_equal(first, other).any()
    print(first[0].shape, first[0].dtype, np.ptp(first[0]) > 50)
"""


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *((name, "(84, 84, 1)") for name in PIXELS),
        ("cartpole-balance-va", "(240, 320, 3)"),
        ("reacher-pomdp", "(480, 480, 3)"),
    ],
)
def test_what_mujoco_draws_is_that_of_the_seed(name, shape):
    pytest.importorskip("mujoco" if "reacher" in name else "dm_control")
    done = run_undisplayed(DRAWN.format(name=name))
    assert done.stdout.splitlines()[-1:] == [f"{shape} uint8 True"], done.stderr


def test_cartpole_of_the_suite_adds_up_the_rewards_of_five_steps(load):
    repeated = load("cartpole-swingup", 4)
    alone = dm_control_adapter.load("cartpole", "swingup", seed=4)
    np.testing.assert_array_equal(repeated.reset().observation, alone.reset().observation)
    action = np.float32([0.7])
    for _ in range(3):
        five = [alone.step(action) for _ in range(5)]
        step = repeated.step(action)
        np.testing.assert_array_equal(step.observation, five[-1].observation)
        np.testing.assert_allclose(step.reward, sum(s.reward for s in five), rtol=1e-6)
    assert playback_of(repeated).frames_per_sec == 20  # 1 / (5 x 0.01 s)


@pytest.mark.parametrize("task", ["balance", "swingup"])
def test_variants_of_the_suites_cartpole_see_parts_of_its_state(task, load):
    names = (f"cartpole-{task}", f"cartpole-{task}-p", f"cartpole-{task}-va")
    full, positions, velocities = (episode(load(name, 1), 4, seed=5) for name in names)
    policy = RandomPolicy(load(names[0], 1).action_spec(), 5)
    actions = [0.0] + [float(policy.action(step, ())[0][0]) for step in full[:4]]
    for step, p, va, action in zip(full, positions, velocities, actions, strict=True):
        x, cosine, sine, *speeds = step.observation.tolist()
        np.testing.assert_allclose(cosine**2 + sine**2, 1, rtol=1e-5)
        assert p.observation.tolist() == [x, cosine, sine]
        assert va.observation.tolist() == [*speeds, action]


@pytest.mark.parametrize(
    ("name", "full_name", "num_joints"),
    [("half-cheetah-p", "HalfCheetahBulletEnv-v0", 6), ("ant-p", "AntBulletEnv-v0", 8)],
)
def test_walkers_of_pybullet_lack_the_velocities_of_their_joints(name, full_name, num_joints, load):
    seen = [step.observation for step in episode(load(name, 3), 10)]
    with pybullet_adapter.load(full_name, seed=3) as full_environment:
        full = [step.observation for step in episode(full_environment, 10)]
        robot = full_environment.gym.unwrapped.robot
        speeds = np.clip(robot.joint_speeds, -5, 5)  # after the last step
    joints = slice(8, 8 + 2 * num_joints)
    np.testing.assert_allclose(full[-1][joints][1::2], speeds, rtol=1e-6)
    assert np.abs(speeds).max() > 0.1
    for all_parts, parts in zip(full, seen, strict=True):
        positions = all_parts[joints][0::2]
        feet = all_parts[8 + 2 * num_joints :]
        assert len(feet) == len(robot.feet)
        np.testing.assert_array_equal(parts, [*all_parts[:8], *positions, *feet])


def test_reacher_shows_its_goal_once_and_the_last_action(load):
    environment = load("reacher-pomdp", 3)
    full = gymnasium_adapter.load("Reacher-v5", seed=3)
    steps, full_steps = episode(environment, 4), episode(full, 4)
    np.testing.assert_array_equal(steps[0].observation, [*full_steps[0].observation, 0, 0])
    goal = full.gym.unwrapped.goal
    np.testing.assert_allclose(steps[0].observation[4:6], goal, rtol=1e-6)
    policy = RandomPolicy(environment.action_spec(), 0)
    for before, step, full_step in zip(full_steps, steps[1:], full_steps[1:], strict=False):
        action = policy.action(before, ())[0]
        cosines_and_sines, velocities = full_step.observation[:4], full_step.observation[6:8]
        np.testing.assert_array_equal(
            step.observation, [*cosines_and_sines, 0, 0, *velocities, 0, 0, *action]
        )
        assert step.reward == full_step.reward


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="no task partial:pendulum-x. Did you mean partial:pend"):
        partial.load("pendulum-x")


def test_the_page_has_every_task_with_its_size_and_horizon():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([\d x]+) \| (\d+) \|$", PAGE.read_text(), re.M)
    assert [name for name, *_ in rows] == list(partial.TASKS)
    for name, shape, horizon in rows:
        assert int(horizon) == partial.TASKS[name].horizon
        if name not in PIXELS and not SUITE.match(name) and "reacher" not in name:
            expected = partial.load(name, seed=1).observation_spec().shape
            assert tuple(map(int, shape.split(" x "))) == expected
