"""With `critic_observations`, critics see leaves that the actor, and what is exported, does not."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import FIRST, LAST, MID, Params
from tf_agents.policies import policy_saver
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent as make_agent_for
from tfagents_system.agents.privileged_critics import check_has_privileged_critics
from tfagents_system.assembly import assemble
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.evaluation.evaluator import load_greedy_policy
from tfagents_system.learning.initial_weights import initialize
from tfagents_system.learning.policy_export import write_policy
from tfagents_system.policies.acting import AgentPolicies, TfActingPolicy

JOINTS, STATE = tf.TensorSpec([2], tf.float32), tf.TensorSpec([3], tf.float32)
CAMERA = tf.TensorSpec([20, 20, 3], tf.uint8)
SEEN = {"arm": {"joints": JOINTS}}
OBSERVATION = {"arm": {"joints": JOINTS, "torque": JOINTS}, "state": STATE}
HIDDEN = ["arm/torque", "state"]
ACTION = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "action")
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int64, [0, 0], [1, 2], "action")
NUM_STEPS, BATCH = 3, 8

LEARNERS = [
    {"algorithm": "sac"},
    {"algorithm": "sac", "state_value_network": True},
    {"algorithm": "sac", "recurrent": True},
    {"algorithm": "sac", "reward_signals": {"extrinsic": {}, "rnd": {}}},
    {"algorithm": "tqc"},
    {"algorithm": "crossq"},
    {"algorithm": "xqc"},
    {"algorithm": "td3"},
    {"algorithm": "ddpg"},
    {"algorithm": "td3", "recurrent": True},
]


class OwnParams(Params):
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)
    rnn_units = 4
    image_encoder = "simple"
    state_value_ctor = Params.__base__.state_value_ctor


def make_agent(spec=OBSERVATION, action=ACTION, **settings):
    tf.keras.utils.set_random_seed(1)
    params = OwnParams(**{"critic_observations": HIDDEN} | settings)
    params.check("params.py")
    return params.agent_ctor(tf.Variable(0, dtype=tf.int64), spec, action, ts.time_step_spec(spec))


def observations(spec, rng, *lead):
    return tf.nest.map_structure(
        lambda leaf: tf.constant(
            rng.integers(256, size=[*lead, *leaf.shape], dtype=np.uint8)
            if leaf.dtype == tf.uint8
            else (3 + rng.normal(size=[*lead, *leaf.shape])).astype(np.float32)
        ),
        spec,
    )


def minibatch(seed=1, spec=OBSERVATION, length=None, streams=0):
    rng = np.random.default_rng(seed)
    lead = (BATCH, length) if length else (BATCH,)
    step_type = np.full(lead, MID)
    if length:
        step_type[:, 0], step_type[:, -1] = FIRST, LAST
    reward = rng.normal(size=(streams, *lead) if streams else lead)
    return Transition(
        tf.constant(step_type, tf.float32),
        observations(spec, rng, *lead),
        tf.constant(rng.uniform(-1, 1, (*lead, 1)), tf.float32),
        tf.constant(reward, tf.float32),
        tf.ones(reward.shape),
        observations(spec, rng, *lead),
        return_so_far=tf.zeros(lead),
    )


def of_settings(settings):
    return {
        "length": 3 if settings.get("recurrent") else None,
        "streams": len(settings.get("reward_signals", ())),
    }


def first(nest):
    return tf.nest.map_structure(lambda leaf: leaf[0].numpy(), nest)


@pytest.mark.parametrize("settings", LEARNERS, ids=lambda s: ", ".join(map(str, s.values())))
def test_both_policies_take_and_use_only_what_the_actor_sees(settings):
    agent = make_agent(**settings)
    for seed in range(NUM_STEPS):
        before = [v.numpy() for v in agent.networks.actor.trainable_variables]
        info = agent.train(minibatch(seed, **of_settings(settings)))
        assert np.isfinite(info.loss)
    # The last is one of the actor's also with a delay of 3; with one of 2 the one before was.
    if settings["algorithm"] != "td3":
        after = agent.networks.actor.trainable_variables
        assert any((old != new.numpy()).any() for old, new in zip(before, after, strict=True))
    whole = first(minibatch(9).observation)
    other = {"arm": whole["arm"] | {"torque": whole["arm"]["torque"] * 9}, "state": -whole["state"]}
    for policy in (agent.policy, agent.collect_policy):
        assert policy.time_step_spec.observation == SEEN
        assert not any("torque" in v.name for v in policy.variables())
    policies = AgentPolicies(agent, np.random.default_rng(0), num_slots=3)
    assert policies.obstacle is None
    by_tensorflow = TfActingPolicy(agent.policy)
    state = by_tensorflow.initial_state()
    alone = {"arm": {"joints": whole["arm"]["joints"]}}
    steps = list(map(ts.restart, (whole, other, alone)))
    expected = by_tensorflow.action(steps[0], state)[0]
    for step in steps:
        np.testing.assert_array_equal(by_tensorflow.action(step, state)[0], expected)
        action, _ = policies.greedy.action(step, policies.greedy.initial_state())
        np.testing.assert_allclose(action, expected, atol=1e-5)
    states = [policies.collect.initial_state(slot) for slot in range(3)]
    together, _ = policies.greedy.actions(range(3), steps, states)
    np.testing.assert_allclose(together, [expected] * 3, atol=1e-5)
    assert policies.collect.action(steps[1], states[1])[0].shape == (1,)


@pytest.mark.parametrize("settings", LEARNERS, ids=lambda s: ", ".join(map(str, s.values())))
def test_all_critics_see_the_whole_observation(settings):
    networks = make_agent(**settings).networks
    batch = minibatch(**of_settings(settings))
    judges = [*networks.critics, *networks.target_critics]
    inputs = batch.observation, batch.action
    called = [(critic, inputs) for critic in judges]
    values = (networks.state_value, networks.target_state_value)
    called += [(value, inputs[0]) for value in values if value is not None]
    for judge, seen in called:
        with tf.GradientTape() as tape:
            tape.watch(batch.observation)
            value = tf.add_n(tf.nest.flatten(judge(seen)[0]))
        for gradient in tf.nest.flatten(tape.gradient(value, batch.observation)):
            assert (gradient.numpy() != 0).any(axis=tuple(range(gradient.shape.rank - 1))).all()


def test_losses_and_gradients_are_those_of_an_actor_that_ignores_the_same_leaves():
    """An actor of all leaves, with zeros in the rows of the hidden ones, by the same critics."""
    agent = make_agent(algorithm="ddpg")  # draws nothing
    of_all = make_agent(algorithm="ddpg", critic_observations=[])
    for kind in ("critics", "target_critics"):
        pairs = zip(getattr(agent.networks, kind), getattr(of_all.networks, kind), strict=True)
        for net, other in pairs:
            other.set_weights(net.get_weights())
    kernel, *rest = agent.networks.actor.get_weights()
    wide = np.zeros([2 + 2 + 3, 8], np.float32)
    wide[:2] = kernel  # joints are the first of joints, torque, state
    for actor in (of_all.networks.actor, of_all.networks.target_actor):
        actor.set_weights([wide, *rest])
    batch = minibatch()
    (gradients, info), (others, other_info) = agent.gradients(batch), of_all.gradients(batch)
    assert agent.networks.actor.trainable_variables[0].shape == (2, 8)
    np.testing.assert_allclose(info.loss, other_info.loss, rtol=1e-5)
    np.testing.assert_allclose(gradients.actor[0], others.actor[0][:2], rtol=1e-4, atol=1e-7)
    flat = [tf.nest.flatten((g.critics, g.actor[1:])) for g in (gradients, others)]
    for one, other in zip(*flat, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_the_actor_has_statistics_of_its_own_leaves_alone(algorithm):
    agent = make_agent(algorithm=algorithm, normalize_observations=True, recurrent=True)
    for seed in range(NUM_STEPS):
        agent.train(minibatch(seed, length=4))
    normalizer, own = agent.networks.normalizer, agent.networks.actor_normalizer
    assert own.count.numpy() == normalizer.count.numpy() == NUM_STEPS * BATCH * 3  # of 4 steps
    np.testing.assert_allclose(own.mean, normalizer.mean[:2], rtol=1e-9)
    np.testing.assert_allclose(own.variance, normalizer.variance[:2], rtol=1e-9)
    refs = {variable.ref() for variable in agent.collect_policy.variables()}
    assert {v.ref() for v in own.variables} <= refs
    assert not {v.ref() for v in normalizer.variables} & refs
    policies, acting = AgentPolicies(agent, np.random.default_rng(0)), TfActingPolicy(agent.policy)
    step = ts.restart(first(minibatch(9).observation))
    np.testing.assert_allclose(
        policies.greedy.action(step, policies.greedy.initial_state())[0],
        acting.action(step, acting.initial_state())[0],
        atol=1e-5,
    )


VISUAL = {"camera": CAMERA, "joints": JOINTS, "state": STATE}


@pytest.mark.parametrize("algorithm", ["sac", "tqc", "crossq", "xqc", "td3", "ddpg"])
def test_with_images_each_network_has_and_trains_its_own_convolutions(algorithm):
    agent = make_agent(VISUAL, algorithm=algorithm, critic_observations=["state", "joints"],
                       normalize_observations=True, policy_delay=1, image_augmentation=2,
                       state_value_network=algorithm == "sac")  # fmt: skip
    networks = agent.networks
    assert networks.summarizer is None
    assert agent.policy.time_step_spec.observation == {"camera": CAMERA}
    assert networks.actor_normalizer is None  # it sees no number
    nets = [networks.actor, *networks.critics]
    if networks.state_value is not None:
        nets.append(networks.state_value)
    variables = [net.trainable_variables for net in nets]
    before = [[v.numpy() for v in of_net] for of_net in variables]
    assert all(any(v.shape.rank == 4 for v in of_net) for of_net in variables)
    agent.train(minibatch(spec=VISUAL))
    for old, new in zip(before, variables, strict=True):
        assert all((x != y.numpy()).any() for x, y in zip(old, new, strict=True))


def test_images_may_be_the_critics_alone_and_then_workers_act_in_numpy():
    agent = make_agent(VISUAL, critic_observations=["camera"])
    assert np.isfinite(agent.train(minibatch(spec=VISUAL)).loss)
    policies = AgentPolicies(agent, np.random.default_rng(0))
    assert policies.obstacle is None
    step = ts.restart(first(minibatch(spec=VISUAL).observation))
    assert policies.collect.action(step, policies.collect.initial_state())[0].shape == (1,)


def test_what_cannot_be_normalized_is_refused_with_critics_that_see_more():
    seen = {"camera": VISUAL["camera"], "other": tf.TensorSpec(VISUAL["camera"].shape, tf.uint8)}
    with pytest.raises(ConfigError, match="normalize_observations is True, but no part"):
        make_agent(seen, critic_observations=["other"], normalize_observations=True)


def test_a_policy_alone_has_too_few_statistics_to_start_from(tmp_path):
    agent = make_agent(normalize_observations=True)
    write_policy(tmp_path / "policy", agent.policy.variables())
    message = (
        "lacks those that only critics see .* EXP or EXP:0000050000; an experiment of sac clone "
        "has none, so it cannot be continued with both normalize_observations and critic_obs"
    )
    with pytest.raises(ConfigError, match=message):
        initialize(agent, tmp_path / "policy")


def test_a_mask_of_actions_stays_the_policys():
    spec = OBSERVATION | {"action_mask": tf.TensorSpec([2 + 3], tf.float32)}
    agent = make_agent(spec, BRANCHES)
    assert agent.policy.time_step_spec.observation == SEEN | {"action_mask": spec["action_mask"]}
    batch = minibatch(spec=spec)
    mask = tf.constant([[0.0, 1, 0, 0, 1]] * BATCH)
    batch = batch._replace(
        observation=batch.observation | {"action_mask": mask},
        next_observation=batch.next_observation | {"action_mask": mask},
        action=tf.ones([BATCH, 2], tf.int64),
    )
    assert np.isfinite(agent.train(batch).loss)
    policies = AgentPolicies(agent, np.random.default_rng(0))
    step = ts.restart(first(batch.observation))
    for policy in (policies.greedy, policies.collect, TfActingPolicy(agent.collect_policy)):
        assert policy.action(step, policy.initial_state())[0].tolist() == [1, 2]


def test_a_saved_policy_has_no_input_for_them(tmp_path):
    policy_saver.PolicySaver(make_agent().policy, batch_size=None).save(str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    inputs = loaded.signatures["action"].structured_input_signature[1]
    names = {name for name in inputs if "observation" in name}
    assert names == {"arg_0_observation_arm_joints"}


class Slope(gymnasium.Env):
    """An environment whose observation may have the state of the simulator."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, has_state=True, is_dict=True):
        box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        names = ["position", "state"] if has_state else ["position"]
        self.observation_space = gymnasium.spaces.Dict({name: box for name in names})
        if not is_dict:
            self.observation_space = box

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


class SlopeParams(OwnParams):
    env_kwargs = {}
    critic_observations = ["state"]

    def env_ctor(self, *args, seed=None, **kwargs):
        return Slope(**self.env_kwargs)


def test_a_policy_also_acts_where_the_leaves_are_missing(tmp_path):
    params = SlopeParams(normalize_observations=True)
    agent, _ = make_agent_for(params, make_collect_environment(params, 1))
    write_policy(tmp_path, agent.collect_policy.variables())
    step = ts.restart({"position": np.float32([0.5, -0.25])})
    acting = TfActingPolicy(agent.policy)
    expected, _ = acting.action(step, acting.initial_state())
    for has_state in (True, False):
        params.env_kwargs = {"has_state": has_state}
        policy = load_greedy_policy(params, make_collect_environment(params, 1), tmp_path)
        np.testing.assert_allclose(
            policy.action(step, policy.initial_state())[0], expected, atol=1e-5
        )


@pytest.mark.parametrize(
    ("settings", "env_kwargs", "message"),
    [
        ({"critic_observations": ["sate"]}, {}, "no 'sate'. Did you mean state?"),
        ({"critic_observations": ["x"]}, {}, "no 'x'. Allowed: position, state."),
        ({"critic_observations": ["state", "position"]}, {}, "leave something to the actor"),
        ({}, {"has_state": False}, "has no 'state'"),
        ({}, {"is_dict": False}, r"\['state'\], but the environment's observation is not a dict"),
    ],
)
def test_names_that_do_not_fit_the_environment_are_refused(settings, env_kwargs, message):
    params = SlopeParams(**settings)
    params.env_kwargs = env_kwargs
    with pytest.raises(ConfigError, match=message):
        assemble(params, make_collect_environment(params, 1))


def test_an_agent_that_would_show_them_to_its_actor_is_refused():
    check_has_privileged_critics([], "an agent")
    with pytest.raises(
        ConfigError,
        match=r"returned a str, and .* \['state'\]; expected critic_observations = \[\]",
    ):
        check_has_privileged_critics(["state"], "an agent")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic_observations": "state"}, r"is 'state'; expected a list of different names"),
        ({"critic_observations": ["a", "a"]}, "different names"),
        (
            {"share_summarizer": True, "recurrent": True},
            r"critic_observations is \['state'\]; expected share_summarizer = False",
        ),
    ],
)
def test_settings_that_cannot_be_separated_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        SlopeParams(**settings).check("params.py")
