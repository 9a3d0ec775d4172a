import gym
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.assembly import assemble
from tfagents_system.commands.checks import learning
from tfagents_system.commands.checks.learning import check_learning
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.policies.acting import AgentPolicies
from tfagents_system.train_params_base import TrainParamsBase


class Walk(gym.Env):
    """Observes what `space` samples; the reward is `reward`, an episode has `length` steps."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, space, reward=0.5, length=30):
        self.observation_space, self._reward, self._length = space, reward, length

    def reset(self):
        self._count = 0
        return self.observation_space.sample()

    def step(self, action):
        self._count += 1
        ends = self._count == self._length
        info = {"TimeLimit.truncated": ends}
        return self.observation_space.sample(), self._reward, ends, info


BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
NEST = gym.spaces.Dict(
    arm=gym.spaces.Dict({"angle_1": BOX, "2": BOX}),
    code=gym.spaces.Box(0, 9, (2,), np.uint8),
)
IMAGE = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)


class Params(TrainParamsBase):
    matmul_precision = "float32"
    actor_fc_layer_params = critic_joint_fc_layer_params = (4,)
    rnn_units = 4
    train_batch_size = 16
    n_buffer_init_episodes = 1
    recurrent_sequence_length = 5
    make_env = None

    def env_ctor(self, *args, seed=None, **kwargs):
        return GymEnvironment(self.make_env(), seed=seed)


def checked(make_env, params_class=Params, **settings):
    params = params_class({"horizon": 30})
    params.make_env = make_env
    for name, value in settings.items():
        setattr(params, name, value)
    environment = make_collect_environment(params, 1)
    made = assemble(params, environment)
    policies = AgentPolicies(made.agent, np.random.default_rng(0))
    return check_learning(params, made, environment, policies.collect), made


@pytest.mark.parametrize(
    ("space", "length", "settings", "num_steps"),
    [
        (BOX, 30, {}, 2 * (1 + 1)),  # single transitions
        (NEST, 30, {"algorithm": "td3", "fresh_samples_per_step": 8}, 2 * (8 + 1)),  # blocks
        (BOX, 3, {"recurrent": True}, 2 * (5 + 1)),  # padded episodes
        (BOX, 30, {"recurrent": True, "stored_state": True}, 2 * (5 + 1)),
        (
            IMAGE,
            30,
            {"frame_stack": 2, "fresh_samples_per_step": 16, "train_batch_size": 32},
            2 * (16 + 2),
        ),
    ],
)
def test_whatever_a_run_trains_does_one_train_step(space, length, settings, num_steps):
    row, made = checked(lambda: Walk(space, length=length), **settings)
    assert (row.verdict, row.value) == (
        "ok", f"policies exported; a train step with {num_steps} env steps done"
    )  # fmt: skip
    assert int(made.train_step) == 1


@pytest.fixture
def without_export(monkeypatch):
    """For faults that come after the export, which takes seconds."""
    monkeypatch.setattr(learning, "_export", lambda made: None)


class PyFunctionActor(network.Network):
    """Has a size that only Python knows, so that its graph cannot be saved."""

    def __init__(self, obs_spec, action_spec):
        super().__init__(obs_spec, state_spec=(), name="actor")
        self._inner = MlpActorNetwork(obs_spec, action_spec, (4,))

    def call(self, observation, step_type=None, network_state=(), training=False):
        if not tf.executing_eagerly() and step_type is not None:
            raise TypeError("no graph for this network")
        return self._inner(observation, step_type, network_state, training=training)


def test_a_network_that_cannot_be_exported_is_found():
    class Custom(Params):
        def actor_ctor(self, obs_spec, action_spec):
            return PyFunctionActor(obs_spec, action_spec)

    row, made = checked(lambda: Walk(BOX), Custom)
    assert row.verdict == "WRONG"
    assert row.value.startswith("the exported policy: TypeError: ")
    assert "no graph for this network" in row.value
    assert int(made.train_step) == 0


@pytest.mark.usefixtures("without_export")
def test_an_agent_that_does_not_count_its_train_steps_is_found():
    class Uncounted(Params):
        def agent_ctor(self, train_step, *specs):
            return super().agent_ctor(tf.Variable(0, dtype=tf.int64), *specs)

    row, _ = checked(lambda: Walk(BOX), Uncounted)
    assert row.verdict == "WRONG"
    assert "a train step: ConfigError: the agent of TrainParams.agent_ctor does not" in row.value


@pytest.mark.usefixtures("without_export")
def test_numbers_that_make_training_diverge_are_found():
    row, _ = checked(lambda: Walk(BOX, reward=9e14))
    assert row.verdict == "WRONG" and row.value.startswith("a train step is not finite: ")


@pytest.mark.usefixtures("without_export")
def test_a_step_that_a_worker_would_reject_is_named():
    row, _ = checked(lambda: Walk(BOX, reward=float("nan")))
    assert row.verdict == "WRONG"
    assert "the replay buffer: ConfigError: a step is rejected: reward is not finite" in row.value


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([0, 1], "has the key 0; expected strings"),
        (["left arm"], "has the key 'left arm'; expected"),
        (["é"], "has the key 'é'; expected"),
        ([""], "has the key ''; expected"),
        ([("a", 1)], r"has the key \('a', 1\); expected"),
        (["A", "a"], "observation/A and observation/a, of the environment, are one name"),
        (["a-b", "a_b"], "observation/a-b and observation/a_b, of the environment, are one name"),
    ],
)
def test_keys_that_no_policy_can_be_saved_by_are_refused_before_training(keys, message):
    class Params:
        frame_stack = action_repeat = 1
        time_aware = False

        def collect_env_args_kwargs(self):
            return (), {}

        def env_ctor(self, seed):
            return GymEnvironment(Walk(gym.spaces.Dict({key: BOX for key in keys})))

    with pytest.raises(ConfigError, match=message):
        make_collect_environment(Params(), 0)
