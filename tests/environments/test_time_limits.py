"""Episodes of the environments that TF-Agents' suites make, and what is learned from them."""

import functools

import gym
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import gym_wrapper, suite_gym, wrappers

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.environments import gym_adapter
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.environments.guest_environment import as_made
from tfagents_system.environments.time_limits import EpisodeEnds
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.train_params_base import TrainParamsBase

LIMIT = 5
GAMMA = 0.9
NEVER = 1000
NAME = "OneForEver-v0"


class OneForEver(gym.Env):
    """Reward 1 in each step; terminates after `num_steps`."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, num_steps=NEVER):
        self._num_steps = num_steps

    def seed(self, seed=None):
        pass

    def reset(self):
        self._step = 0
        return np.zeros(1, np.float32)

    def step(self, action):
        self._step += 1
        return np.zeros(1, np.float32), 1.0, self._step >= self._num_steps, {}


@pytest.fixture(autouse=True)
def registered():
    gym.register(NAME, entry_point=OneForEver, max_episode_steps=LIMIT)
    yield
    del gym.envs.registry.env_specs[NAME]


def suite_pybullet_load(*args, **kwargs):
    suite_pybullet = pytest.importorskip("tf_agents.environments.suite_pybullet")
    return suite_pybullet.load(*args, **kwargs)


def limited(num_steps):
    return gym.wrappers.TimeLimit(OneForEver(num_steps), LIMIT)


class OwnWrapper(wrappers.PyEnvironmentBaseWrapper):
    """As a user writes it."""


MAKERS = {
    "suite_gym.load": lambda n: suite_gym.load(NAME, gym_kwargs={"num_steps": n}),
    "suite_gym.load without a limit of its own": lambda n: suite_gym.load(
        NAME, max_episode_steps=0, gym_kwargs={"num_steps": n}
    ),
    "suite_gym.load with another limit": lambda n: wrappers.TimeLimit(
        suite_gym.load(NAME, max_episode_steps=NEVER, gym_kwargs={"num_steps": n}), NEVER
    ),
    "suite_gym.wrap_env of gym.make": lambda n: suite_gym.wrap_env(gym.make(NAME, num_steps=n)),
    "suite_gym.wrap_env of TimeLimit": lambda n: suite_gym.wrap_env(limited(n)),
    "suite_pybullet.load": lambda n: suite_pybullet_load(NAME, gym_kwargs={"num_steps": n}),
    "GymWrapper": lambda n: gym_wrapper.GymWrapper(limited(n)),
    "gym's own wrappers": lambda n: suite_gym.load(
        NAME,
        gym_kwargs={"num_steps": n},
        gym_env_wrappers=[gym.wrappers.RecordEpisodeStatistics, gym.wrappers.ClipAction],
    ),
    "TF-Agents' wrappers": lambda n: wrappers.HistoryWrapper(
        wrappers.RunStats(OwnWrapper(suite_gym.wrap_env(limited(n)))), history_length=2
    ),
    "TF-Agents' TimeLimit alone": lambda n: suite_gym.wrap_env(
        OneForEver(n), max_episode_steps=LIMIT
    ),
    "an adapter of ours in TF-Agents' wrappers": lambda n: wrappers.RunStats(
        gym_adapter.GymEnvironment(limited(n))
    ),
}


class Params(TrainParamsBase):
    discount = GAMMA
    matmul_precision = "float32"
    actor_fc_layer_params = critic_joint_fc_layer_params = (64,)
    critic_learning_rate = actor_learning_rate = 0.01
    target_update_tau = 0.5
    sac_log_alpha = -20.0  # no entropy in the values
    alpha_learning_rate = 1e-9

    def __init__(self, make):
        super().__init__({"horizon": 100})
        self.make = make

    def env_ctor(self, *args, seed=None, **kwargs):
        return self.make()


def make_environment(make):
    return make_collect_environment(Params(make), seed=1)


def episode(environment):
    steps = [environment.reset()]
    while not steps[-1].is_last():
        steps.append(environment.step(np.zeros(1, np.float32)))
    return steps


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("num_steps", "length", "last_discount"),
    [
        (NEVER, LIMIT, 1.0),  # a time limit
        (LIMIT - 2, LIMIT - 2, 0.0),  # a termination
        (LIMIT, LIMIT, 0.0),  # a termination at the last step that the limit allows
    ],
)
def test_a_time_limit_keeps_its_discount_and_a_termination_does_not(
    name, num_steps, length, last_discount
):
    make = functools.partial(MAKERS[name], num_steps)
    environment = make_environment(make)
    for _ in range(2):
        steps = episode(environment)
        assert [float(step.discount) for step in steps] == [1.0] * length + [last_discount]
        assert all(step.discount.dtype == np.float32 for step in steps)
        assert [float(step.reward) for step in steps] == [0.0] + [1.0] * length


def test_repeated_actions_end_with_the_discount_of_the_last_of_them():
    for num_steps, discount in [(NEVER, 1.0), (LIMIT, 0.0)]:
        make = functools.partial(MAKERS["suite_gym.load"], num_steps)
        steps = episode(make_environment(lambda make=make: wrappers.ActionRepeat(make(), 2)))
        assert [float(step.reward) for step in steps] == [0.0, 2.0, 2.0, 1.0]  # 5 steps
        assert [float(step.discount) for step in steps] == [1.0, 1.0, 1.0, discount]


def test_nested_observations_are_flattened_and_the_limit_still_told():
    class WithDict(OneForEver):
        observation_space = gym.spaces.Dict({"a": OneForEver.observation_space})

        def reset(self):
            return {"a": super().reset()}

        def step(self, action):
            observation, *rest = super().step(action)
            return {"a": observation}, *rest

    def make():
        limited = gym.wrappers.TimeLimit(WithDict(), LIMIT)
        return wrappers.FlattenObservationsWrapper(suite_gym.wrap_env(limited))

    (*_, last) = episode(make_environment(make))
    assert float(last.discount) == 1.0


def test_a_discount_of_the_environments_own_holds_at_its_time_limit():
    environment = make_environment(lambda: suite_gym.load(NAME, discount=0.5))
    assert [float(step.discount) for step in episode(environment)[1:]] == [0.5] * LIMIT


def test_the_environment_is_the_one_that_the_constructor_made():
    made = suite_gym.load(NAME)
    assert as_made(make_environment(lambda: made)) is made


def test_equal_limits_of_which_gym_reports_a_termination_are_refused():
    with pytest.raises(ConfigError, match=r"OneForEver is wrapped in TimeLimits of \[5, 5\] steps"):
        make_environment(lambda: suite_gym.wrap_env(gym.wrappers.TimeLimit(limited(NEVER), LIMIT)))


def test_suite_pybullet_ends_a_registered_limit_with_discount_1():
    def make():
        return suite_pybullet_load("InvertedPendulumSwingupBulletEnv-v0")

    environment = make_environment(make)
    *_, last = episode(environment)
    assert environment.get_info()["TimeLimit.truncated"] is True
    assert float(last.discount) == 1.0


def test_suite_dm_control_reports_its_own_limits():
    suite_dm_control = pytest.importorskip("tf_agents.environments.suite_dm_control")
    if not suite_dm_control.is_available():
        pytest.skip("dm_control is not installed")
    environment = make_environment(
        lambda: suite_dm_control.load("cartpole", "balance", task_kwargs={"time_limit": 0.1})
    )
    *_, last = episode(environment)
    assert float(last.discount) == 1.0


def learned_q(make, num_train_steps=1000):
    """Q of the state, after training on two episodes from `make`, collected as by a worker."""
    params = Params(make)
    environment = make_collect_environment(params, seed=1)
    tf.keras.utils.set_random_seed(1)  # Keras draws initial weights from the module random
    agent, _ = make_agent(params, environment)
    policy = RandomPolicy(environment.action_spec(), seed=1)
    pairs = []
    for _ in range(2):
        time_step = environment.reset()
        while not time_step.is_last():
            action, _ = policy.action(time_step, ())
            next_time_step = environment.step(action)
            pairs.append(
                Transition(
                    np.float32(time_step.step_type), time_step.observation, action,
                    next_time_step.reward, next_time_step.discount, next_time_step.observation,
                )
            )  # fmt: skip
            time_step = next_time_step
    batch = tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *pairs)
    train = tf.function(lambda: agent.train(batch), autograph=False)
    for _ in range(num_train_steps):
        loss = train()
    return float(loss.extra["q_value"])


def test_the_value_of_reward_1_for_ever_is_learned_through_a_time_limit():
    assert learned_q(lambda: suite_gym.load(NAME)) == pytest.approx(1 / (1 - GAMMA), rel=0.05)


def suspicion_after(ends, horizon=100, ends_there=False):
    episode_ends = EpisodeEnds(horizon, ends_there)
    for length, discount in ends:
        episode_ends.note(length, discount == 0)
    return episode_ends.suspicion


def test_the_end_of_a_task_that_ends_at_the_horizon_is_not_suspicious():
    assert suspicion_after([(100, 0.0)] * 10) is not None
    assert suspicion_after([(100, 0.0)] * 10, ends_there=True) is None
    assert suspicion_after([(99, 0.0)] * 10, ends_there=True) is not None


def test_discount_0_that_always_comes_at_the_same_step_is_suspicious():
    assert suspicion_after([(5, 0.0)] * 9) is None
    assert suspicion_after([(5, 0.0)] * 10) == (
        "10 episodes ended after 5 steps (always the same length) with discount 0, and none with "
        "discount 1; if that is a time limit, its last step must have discount 1, or the critics "
        "learn values that are too low"
    )
    assert suspicion_after([(5, 0.0)] * 12 + [(4, 0.0)]) is None  # it was no limit
    assert suspicion_after([(5, 0.0)] * 12 + [(5, 1.0)]) is None
    assert suspicion_after([(5, 1.0)] * 12) is None
    assert suspicion_after([(1, 0.0)] * 12) is None  # a bandit


def test_discount_0_that_always_comes_at_the_horizon_is_suspicious():
    falls = [(30, 0.0), (71, 0.0), (12, 0.0)]
    assert suspicion_after(falls + [(100, 0.0)] * 9) is None
    suspicion = suspicion_after(falls + [(100, 0.0)] * 10)
    assert suspicion.startswith("10 episodes ended after 100 steps (the horizon) with discount 0,")
    assert suspicion_after(falls + [(100, 0.0)] * 10 + [(100, 1.0)]) is None


@pytest.mark.parametrize("mean_length", [2, 20, 200])
def test_true_terminations_at_random_steps_are_not_suspicious(mean_length):
    rng = np.random.default_rng(0)
    for _ in range(20):
        episode_ends = EpisodeEnds(horizon=100)
        for length in rng.geometric(1 / mean_length, size=300):
            episode_ends.note(min(length, 100), length <= 100)
            assert episode_ends.suspicion is None
