import gym
import gymnasium
import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.environments import suite_gym
from tf_agents.specs import array_spec

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.environments import construction, spaces
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.environments.partial_observation import KeepObservations
from tfagents_system.policies.acting import TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase

NAN = float("nan")
LOST = [
    (np.uint8, np.array([300, 1]), "value 300, .* uint8 .* from 0 to 255"),
    (np.uint8, [1, 300], "value 300"),
    (np.uint8, np.array([-1, 0], np.int8), "value -1"),
    (np.uint8, np.array([0.5, 0]), "value 0.5"),
    (np.int16, np.array([0, NAN]), "value nan"),
    (np.int8, np.array([0, 2**31]), "value 2147483648, .* int32 .* from -2147483648 to"),
    (np.int64, np.array([0, 2**63], np.uint64), "value 9223372036854775808"),
    (np.uint64, np.array([0, 2**63], np.uint64), "value 9223372036854775808"),
    (np.int32, np.array([2.0**40, 0], np.float32), "value 1099511627776.0"),
    (np.uint8, np.array(["1", "2"]), "dtype <U1"),
]
KEPT = [
    (np.uint8, np.array([255, 0], np.int64), [255, 0]),
    (np.uint8, [True, False], [1, 0]),
    (np.int8, np.array([-128.0, 127.0]), [-128, 127]),
    (np.uint32, np.array([2**32 - 1, 0], np.uint32), [2**32 - 1, 0]),
    (np.int64, (3, 2**62), [3, 2**62]),
]


def observe(dtype, given):
    space = gym.spaces.Dict(
        speed=gym.spaces.Box(0, 1, (2,), np.float32),
        codes=gym.spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, (2,), dtype),
    )
    cast = spaces.observation_cast(spaces.observation_spec(space, "Env"))
    return cast({"codes": given, "speed": [0.5, 1e-9]})


@pytest.mark.parametrize(("dtype", "given", "message"), LOST)
def test_an_integer_that_would_change_is_an_error_with_the_name_of_its_leaf(dtype, given, message):
    with pytest.raises(ValueError, match=f"^observation/codes has (the )?{message}"):
        observe(dtype, given)


@pytest.mark.parametrize(("dtype", "given", "kept"), KEPT)
def test_integers_that_fit_are_kept(dtype, given, kept):
    codes = observe(dtype, given)["codes"]
    wider = {np.int8: np.int32, np.uint32: np.int64}
    assert codes.tolist() == kept and codes.dtype == wider.get(dtype, dtype)


@pytest.mark.parametrize(
    ("space", "given", "value"),
    [
        (gym.spaces.Discrete(3), np.float32(1.5), "1.5"),
        (gym.spaces.Discrete(3), np.array(NAN), "nan"),
        (gym.spaces.MultiDiscrete([3, 9]), np.array([1, 2.5]), "2.5"),
        (gym.spaces.Box(-9, 9, (2,), np.int8), np.array([257, 0]), "257"),
    ],
)
def test_an_action_that_would_change_is_an_error(space, given, value):
    cast = spaces.action_cast(spaces.action_spec(space, "Arm"), "Arm")
    with pytest.raises(ValueError, match=f"The action of Arm has the value {value}, which its"):
        cast(given)


def test_an_action_of_integers_in_floats_is_taken():
    cast = spaces.action_cast(spaces.action_spec(gym.spaces.MultiDiscrete([3, 9]), "Arm"), "Arm")
    assert cast(np.array([2.0, 8.0])).tolist() == [2, 8]


class Camera(gym.Env):
    """Pixels of `values`, one after the other, in more bits than it declares."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, values, nests):
        self._values, self._nests = iter(values), nests
        pixels = gym.spaces.Box(0, 255, (2,), np.uint8)
        self.observation_space = gym.spaces.Dict(eye=pixels) if nests else pixels

    def _observe(self):
        pixels = np.full(2, next(self._values), np.int64)
        return {"eye": pixels} if self._nests else pixels

    def reset(self):
        return self._observe()

    def step(self, action):
        return self._observe(), 0.0, False, {}


@pytest.mark.parametrize("adapt", [GymEnvironment, suite_gym.wrap_env])
@pytest.mark.parametrize("nests", [False, True])
def test_no_way_to_an_environment_stores_300_as_44(adapt, nests):
    class Params(TrainParamsBase):
        def env_ctor(self, *args, seed=None, **kwargs):
            environment = adapt(Camera([7, 8, 300], nests))
            return KeepObservations(environment, ["eye"]) if nests else environment

    environment = construction.make_collect_environment(Params({"horizon": 3}), seed=0)
    assert environment.reset().observation.tolist() == [7, 7]
    action = np.zeros(1, np.float32)
    observation = environment.step(action).observation
    assert observation.tolist() == [8, 8] and observation.dtype == np.uint8
    said = "ValueError: observation(/eye)? has the value 300, which its dtype"
    with pytest.raises(UserCodeError, match=said):
        environment.step(action)


def test_other_environments_are_left_as_they_are():
    class Params(TrainParamsBase):
        def env_ctor(self, *args, seed=None, **kwargs):
            return CountingEnv()

    assert construction.make_collect_environment(Params({"horizon": 3}), 0).reset().is_first()


OF = gymnasium.spaces
VECTOR = OF.Box(-1, 1, (2,), np.float32)
INTEGERS = [OF.MultiBinary(2)] + [
    OF.Box(0, 100, (2,), dtype)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64)
]
CHOICES = [OF.MultiBinary(2)] + [
    OF.MultiDiscrete([2, 3], dtype=dtype)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.int64)
]


class Narrow(gymnasium.Env):
    """Observes what its space samples, and takes only actions of its action space's dtype."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space
        self.taken = []

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action) and action.dtype == self.action_space.dtype
        self.taken.append(action)
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("observations", "actions"),
    [(space, VECTOR) for space in INTEGERS] + [(VECTOR, space) for space in CHOICES],
)
def test_agents_act_on_integers_of_any_dtype_and_the_environment_gets_its_own(
    observations, actions
):
    env = Narrow(observations, actions)

    class Params(TrainParamsBase):
        actor_fc_layer_params = critic_joint_fc_layer_params = (4,)

        def env_ctor(self, seed=None):
            return env

    params = Params({"horizon": 3})
    environment = construction.make_collect_environment(params, seed=0)
    agent, _ = make_agent(params, environment)
    time_step = environment.reset()
    policy = TfActingPolicy(agent.collect_policy)
    action, _ = policy.action(time_step, policy.initial_state())
    assert environment.step(action).reward == 1.0
    assert env.taken[0].tolist() == action.tolist()


def test_an_image_keeps_its_8_bits():
    image = spaces.observation_spec(OF.Box(0, 255, (8, 8, 3), np.uint8), "Env")
    assert image.dtype == np.uint8


@pytest.mark.parametrize("kind", ["observation", "action"])
def test_a_dtype_that_agents_cannot_have_is_refused_in_a_py_environment(kind):
    spec = array_spec.BoundedArraySpec((2,), np.int8, 0, 1)

    class Params(TrainParamsBase):
        def env_ctor(self, *args, seed=None, **kwargs):
            environment = CountingEnv()
            setattr(environment, f"{kind}_spec", lambda: {"lamps": spec})
            return environment

    wanted = rf"CountingEnv.{kind}_spec declares {kind}/lamps with dtype int8; .* Declare int32"
    with pytest.raises(ConfigError, match=wanted):
        construction.make_collect_environment(Params({"horizon": 3}), 0)
