import gymnasium
import numpy as np
import pytest
from tf_agents.environments import utils

from tfagents_system.commands.projects.environment_ids import find_environment
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import gymnasium_adapter


class Counter(gymnasium.Env):
    """Observes the number of steps (float64) and terminates after `num_steps`; reward is 2 each."""

    observation_space = gymnasium.spaces.Box(0.0, 1000.0, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, num_steps=1000, render_mode=None):
        self._num_steps = num_steps
        self.render_mode = render_mode
        self.num_drawn = 0
        self.seeds = []
        self.state = {}

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self._count = 0
        return np.zeros(1), {"count": 0}

    def step(self, action):
        self._count += 1
        observation = np.array([self._count], np.float64)
        return observation, 2.0, self._count >= self._num_steps, False, {"count": self._count}

    def render(self):
        self.num_drawn += 1
        return np.full((4, 6, 3), 7, np.uint8)

    def set_state(self, state):
        self.state = state


class Blind(Counter):
    """Lists the mode, but its constructor has no such argument."""

    def __init__(self):
        super().__init__()


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register("CounterTest-v0", entry_point=Counter, max_episode_steps=3)
    gymnasium.register("BlindTest-v0", entry_point=Blind)
    gymnasium.register("FunctionTest-v0", entry_point=lambda **kwargs: Counter(**kwargs))
    yield
    for name in ("CounterTest-v0", "BlindTest-v0", "FunctionTest-v0"):
        del gymnasium.registry[name]


def episode(environment, action=(0.0,)):
    """Time steps of one episode, with the first one."""
    steps = [environment.reset()]
    while not steps[-1].is_last():
        steps.append(environment.step(np.array(action, np.float32)))
    return steps


@pytest.mark.parametrize(
    ("num_steps", "last_discount"),
    [
        (10, 1.0),  # time limit
        (2, 0.0),  # termination
        (3, 0.0),  # termination on the last step allowed
    ],
)
def test_last_discount_tells_time_limits_from_terminations(num_steps, last_discount):
    environment = gymnasium_adapter.load("CounterTest-v0", gym_kwargs={"num_steps": num_steps})
    steps = episode(environment)
    length = min(num_steps, 3)
    assert [int(step.step_type) for step in steps] == [0] + [1] * (length - 1) + [2]
    assert [float(step.discount) for step in steps] == [1.0] * length + [last_discount]
    assert [float(step.reward) for step in steps] == [0.0] + [2.0] * length
    assert [step.observation.tolist() for step in steps] == [[float(i)] for i in range(length + 1)]
    assert {step.observation.dtype for step in steps} == {np.dtype(np.float32)}


def test_environment_passes_the_validation_of_tf_agents():
    utils.validate_py_environment(gymnasium_adapter.load("CounterTest-v0"), episodes=3)


def test_info_of_reset_and_step():
    environment = gymnasium_adapter.load("CounterTest-v0")
    environment.reset()
    assert environment.get_info() == {"count": 0}
    environment.step(np.zeros(1, np.float32))
    assert environment.get_info() == {"count": 1}


def test_pendulum_ends_by_its_registered_time_limit():
    steps = episode(gymnasium_adapter.load("Pendulum-v1", seed=3))
    assert len(steps) == 1 + 200
    assert steps[-1].is_last() and steps[-1].discount == 1.0


def test_max_episode_steps_replaces_the_registered_limit_in_both_directions():
    for limit in (2, 8):
        steps = episode(gymnasium_adapter.load("CounterTest-v0", max_episode_steps=limit))
        assert len(steps) == 1 + limit and steps[-1].discount == 1.0
    assert gymnasium.spec("CounterTest-v0").max_episode_steps == 3
    assert gymnasium.spec("CounterTest-v0").order_enforce


def test_seed_goes_to_the_next_reset_only():
    environment = gymnasium_adapter.load("CounterTest-v0", seed=np.int64(4))
    environment.reset()
    environment.reset()
    environment.seed(9)
    environment.reset()
    assert environment.gym.unwrapped.seeds == [4, None, 9]


def test_same_seed_gives_the_same_episodes():
    def observations(seed):
        environment = gymnasium_adapter.load("Pendulum-v1", seed=seed, max_episode_steps=20)
        steps = episode(environment, [0.5]) + episode(environment, [0.5])
        return np.stack([step.observation for step in steps])

    np.testing.assert_array_equal(observations(5), observations(5))
    assert np.abs(observations(5) - observations(6)).max() > 0.01


def test_set_state_reaches_the_unwrapped_environment():
    environment = gymnasium_adapter.load("CounterTest-v0")
    environment.set_state({"slope": 0.25})
    assert environment.gym.unwrapped.state == {"slope": 0.25}


def test_missing_get_state_names_the_class():
    with pytest.raises(ConfigError, match="Counter has no get_state"):
        gymnasium_adapter.load("CounterTest-v0").get_state()


def test_render_draws_only_when_asked():
    environment = gymnasium_adapter.load("CounterTest-v0")
    episode(environment)
    assert environment.gym.unwrapped.num_drawn == 0
    frame = environment.render()
    assert (frame.shape, frame.dtype, frame.max()) == ((4, 6, 3), np.uint8, 7)
    assert environment.gym.unwrapped.num_drawn == 1


def test_pendulum_renders_without_a_display(monkeypatch):
    pytest.importorskip("pygame", reason="pygame draws the pendulum")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    environment = gymnasium_adapter.load("Pendulum-v1", seed=0)
    environment.reset()
    frame = environment.render()
    assert (frame.shape, frame.dtype) == ((500, 500, 3), np.uint8)
    assert frame.min() < frame.max()


@pytest.mark.parametrize("name", ["BlindTest-v0", "FunctionTest-v0"])
def test_environment_that_does_not_offer_a_render_mode_loads_and_says_so_when_filmed(name):
    environment = gymnasium_adapter.load(name, max_episode_steps=2)
    assert len(episode(environment)) == 3
    with pytest.raises(ConfigError, match="made with render_mode=None and cannot .*'rgb_array'"):
        environment.render()


def test_unknown_id_names_the_nearest():
    with pytest.raises(ConfigError, match="'Pendulumm-v1' .* Nearest registered: Pendulum-v1"):
        gymnasium_adapter.load("Pendulumm-v1")


def test_wrong_gym_kwargs_are_refused():
    with pytest.raises(ConfigError, match="Cannot make Pendulum-v1 .*'gravity': 3"):
        gymnasium_adapter.load("Pendulum-v1", gym_kwargs={"gravity": 3})


def test_an_id_that_a_package_registers_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "arms_of_a_test.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('ArmOfATest-v0', max_episode_steps=7,\n"
        "    entry_point='gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = gymnasium_adapter.load("arms_of_a_test:ArmOfATest-v0", seed=1)
    assert environment.reset().observation.shape == (3,)
    environment.close()
    assert find_environment("arms_of_a_test:ArmOfATest-v0").horizon == 7
    with pytest.raises(ConfigError, match="no_such_arms:A-v0 .*No module named 'no_such_arms'"):
        gymnasium_adapter.load("no_such_arms:A-v0")
    with pytest.raises(
        ConfigError, match="no_such_arms cannot be imported: Module.* one of gymnas"
    ):
        find_environment("no_such_arms:A-v0")
    with pytest.raises(ConfigError, match="no environment .*ArmOfATests-v0.* mean ArmOfATest-v0"):
        find_environment("arms_of_a_test:ArmOfATests-v0")
