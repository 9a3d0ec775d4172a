"""Agents of discrete actions: a train step by hand, and what does not fit them."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import make_batch
from tfagents_system.agents.sac import losses
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition
from tfagents_system.networks.action_heads import action_head
from tfagents_system.policies.acting import AgentPolicies, TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase

GAMMA, ALPHA = 0.9, 0.5
OBSERVATION = tf.TensorSpec([2], tf.float32, "observation")
ONE = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 5, "action")  # 3, 4 or 5
ARM = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1, "arm")
MASKED = {"x": OBSERVATION, "action_mask": tf.TensorSpec([3], tf.float32)}
NESTED = {"arm": ARM, "grip": ONE}
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 0], [1, 2], "action")


class Params(TrainParamsBase):
    discount = GAMMA
    sac_log_alpha = float(np.log(ALPHA))
    actor_fc_layer_params = ()
    critic_joint_fc_layer_params = ()

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("the specs are given")


def make_agent(action_spec, observation=OBSERVATION, **settings):
    params = Params({"horizon": 10})
    for name, value in settings.items():
        setattr(params, name, value)
    return params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), observation, action_spec, ts.time_step_spec(observation)
    )


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def minibatch(action, dtype):
    return Transition(
        tf.ones([2]), tf.constant([[1.0, 2.0], [-1.0, 0.5]]), tf.constant(action, dtype),
        tf.constant([1.0, -2.0]), tf.constant([1.0, 0.0]), tf.constant([[0.5, -1.0], [2.0, 2.0]]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "sizes", "action"),
    [(ONE, [3], [4, 5]), (BRANCHES, [2, 3], [[1, 0], [0, 2]])],
    ids=["one", "branches"],
)
def test_losses_by_hand(spec, sizes, action):
    agent = make_agent(spec)
    rng, num = np.random.default_rng(1), sum(sizes)
    networks = agent.networks
    layers = [networks.actor.head.projection]
    layers += [net.value_layer for net in (*networks.critics, *networks.target_critics)]
    kernels = rng.normal(size=(5, 2, num))
    for layer, kernel in zip(layers, kernels, strict=True):
        layer.set_weights([kernel, np.zeros(num)])
    batch = minibatch(action, spec.dtype)
    _, info = agent.train(batch)

    ends = np.cumsum(sizes)

    def value(state, critics):
        """The mean over branches of sum_a pi(a) (min Q(a) - alpha log pi(a)), and the entropy."""
        q = np.minimum(*(state @ kernels[k] for k in critics))
        soft = entropy = 0.0
        for start, end in zip(ends - sizes, ends, strict=True):
            pi = softmax((state @ kernels[0])[start:end])
            soft += (pi * (q[start:end] - ALPHA * np.log(pi))).sum() / len(sizes)
            entropy -= (pi * np.log(pi)).sum() / len(sizes)
        return soft, entropy

    states, next_states = batch.observation.numpy(), batch.next_observation.numpy()
    expected = 0.0
    for row in range(2):
        target = batch.reward.numpy()[row]
        target += GAMMA * batch.discount.numpy()[row] * value(next_states[row], (3, 4))[0]
        choice = np.atleast_1d(action[row]) - np.atleast_1d(
            np.broadcast_to(spec.minimum, spec.shape)
        )
        for critic in (1, 2):
            q = (states[row] @ kernels[critic])[ends - sizes + choice].mean()
            expected += 0.5 * (q - target) ** 2 / 2
    of_states = [value(state, (1, 2)) for state in states]
    np.testing.assert_allclose(info["critic_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(
        info["actor_loss"], -np.mean([soft for soft, _ in of_states]), rtol=1e-4
    )
    np.testing.assert_allclose(
        info["entropy"], np.mean([entropy for _, entropy in of_states]), rtol=1e-4
    )


def masked(batch, masks, next_masks):
    """The batch with masks; networks see {"x": observation}."""
    return batch._replace(
        observation={"x": batch.observation, "action_mask": tf.constant(masks, tf.float32)},
        next_observation={
            "x": batch.next_observation, "action_mask": tf.constant(next_masks, tf.float32)
        },
    )  # fmt: skip


def test_values_by_hand_are_of_allowed_actions_alone():
    agent, rng = make_agent(ONE, MASKED), np.random.default_rng(1)
    networks = agent.networks
    layers = [networks.actor.head.projection]
    layers += [net.value_layer for net in (*networks.critics, *networks.target_critics)]
    kernels = rng.normal(size=(5, 2, 3))
    for layer, kernel in zip(layers, kernels, strict=True):
        layer.set_weights([kernel, np.zeros(3)])
    masks, next_masks = [[0, 1, 1], [0, 0, 1]], [[1, 0, 1], [1, 1, 1]]
    batch = masked(minibatch([4, 5], ONE.dtype), masks, next_masks)
    _, info = agent.train(batch)

    def value(state, mask, critics):
        allowed = np.flatnonzero(mask)
        q = np.minimum(*(state @ kernels[k] for k in critics))[allowed]
        pi = softmax((state @ kernels[0])[allowed])
        return (pi * (q - ALPHA * np.log(pi))).sum()

    states, next_states = batch.observation["x"].numpy(), batch.next_observation["x"].numpy()
    of_states = [value(s, m, (1, 2)) for s, m in zip(states, masks, strict=True)]
    np.testing.assert_allclose(info["actor_loss"], -np.mean(of_states), rtol=1e-4)
    of_next = [value(s, m, (3, 4)) for s, m in zip(next_states, next_masks, strict=True)]
    targets = batch.reward + GAMMA * batch.discount * of_next
    np.testing.assert_allclose(info["td_target"], np.mean(targets), rtol=1e-4)
    assert all(np.isfinite(v.numpy()).all() for v in agent.policy.variables())


@pytest.mark.parametrize("settings", [{}, {"recurrent": True}, {"share_summarizer": True}])
def test_policies_choose_allowed_actions_alone(settings):
    recurrent = {"recurrent": True, "rnn_units": 3} if settings else {}
    agent = make_agent(ONE, MASKED, normalize_observations=True, **settings | recurrent)
    numpy_policies = AgentPolicies(agent, np.random.default_rng(1))
    assert numpy_policies.obstacle is None
    for allowed in range(3):
        observation = {"x": np.float32([1, 2]), "action_mask": np.float32(np.eye(3)[allowed])}
        for policy in (agent.policy, agent.collect_policy):
            acting = TfActingPolicy(policy)
            assert acting.action(ts.restart(observation), acting.initial_state())[0] == 3 + allowed
        for policy in (numpy_policies.greedy, numpy_policies.collect):
            assert policy.action(ts.restart(observation), policy.initial_state())[0] == 3 + allowed


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("setting", ["share_summarizer", "normalize_observations"])
def test_it_trains_on_masked_minibatches_of_any_size(recurrent, setting):
    memory = {"recurrent": True, "rnn_units": 3, setting: True} if recurrent else {}
    agent = make_agent(ONE, MASKED, **memory)
    train = tf.function(agent.train, autograph=False)
    batch = masked(minibatch([4, 5], ONE.dtype), [[0, 1, 1]] * 2, [[1, 0, 1]] * 2)
    if recurrent:
        batch = tf.nest.map_structure(lambda part: tf.stack([part] * 4, axis=1), batch)
    assert np.isfinite(train(batch).loss)


@pytest.mark.parametrize("spec", [ONE, BRANCHES], ids=["one", "branches"])
def test_it_learns_which_action_is_rewarded(spec):
    tf.random.set_seed(1)
    agent = make_agent(
        spec, discount=0.0, sac_log_alpha=-3.0, actor_learning_rate=0.03, critic_learning_rate=0.03
    )
    train, rng = tf.function(agent.train, autograph=False), np.random.default_rng(1)
    best = np.asarray(spec.maximum)
    for _ in range(300):
        action = rng.integers(spec.minimum, best + 1, size=(32, *spec.shape))
        reward = np.float32((action == best).reshape(32, -1).mean(axis=1))
        observation = tf.ones([32, 2])
        train(Transition(tf.ones([32]), observation, tf.constant(action, spec.dtype),
                         tf.constant(reward), tf.zeros([32]), observation))  # fmt: skip
    step = agent.policy.action(ts.restart(tf.ones([1, 2]), 1))
    np.testing.assert_array_equal(step.action[0], np.broadcast_to(best, spec.shape))


def crossq_agent(spec, observation=OBSERVATION):
    """An agent without hidden layers, with random weights; returns it, and the weights."""
    agent = make_agent(spec, observation, algorithm="crossq", policy_delay=1)
    rng = np.random.default_rng(1)
    networks = agent.networks
    layers = [networks.actor.head.projection]
    layers += [net.layers_of_value.output_layer for net in networks.critics]
    kernels = [rng.normal(size=layer.kernel.shape) for layer in layers]
    for layer, kernel in zip(layers, kernels, strict=True):
        layer.set_weights([kernel, np.zeros(layer.units)])
    return agent, kernels


@pytest.mark.parametrize(
    ("spec", "sizes", "action"),
    [(ONE, [3], [4, 5]), (BRANCHES, [2, 3], [[1, 0], [0, 2]])],
    ids=["one", "branches"],
)
def test_losses_of_crossq_by_hand(spec, sizes, action):
    agent, kernels = crossq_agent(spec)
    batch = minibatch(action, spec.dtype)
    info = agent.gradients(batch)[1].extra
    states, next_states = batch.observation.numpy(), batch.next_observation.numpy()
    # The critics normalize by the moments of both states; the actor is judged by 0 and 1.
    both = np.concatenate([states, next_states])
    normalized = (both - both.mean(axis=0)) / np.sqrt(both.var(axis=0) + 1e-3)
    # The actor normalizes by its minibatch in its own loss, and by 0 and 1 in targets.
    of_actor = (states - states.mean(axis=0)) / np.sqrt(states.var(axis=0) + 1e-3)
    unit = 1 / np.sqrt(1 + 1e-3)
    ends = np.cumsum(sizes)

    def value(actor_input, critic_input):
        q = np.minimum(*(critic_input @ kernel for kernel in kernels[1:]))
        soft = 0.0
        for start, end in zip(ends - sizes, ends, strict=True):
            pi = softmax((actor_input @ kernels[0])[start:end])
            soft += (pi * (q[start:end] - ALPHA * np.log(pi))).sum() / len(sizes)
        return soft

    expected = 0.0
    for row in range(2):
        target = batch.reward.numpy()[row] + GAMMA * batch.discount.numpy()[row] * value(
            unit * next_states[row], normalized[2 + row]
        )
        first = np.broadcast_to(spec.minimum, spec.shape)
        choice = np.atleast_1d(action[row]) - np.atleast_1d(first)
        for kernel in kernels[1:]:
            q = (normalized[row] @ kernel)[ends - sizes + choice].mean()
            expected += 0.5 * (q - target) ** 2 / 2
    np.testing.assert_allclose(info["critic_loss"], expected, rtol=1e-4)
    of_states = [value(of_actor[row], unit * states[row]) for row in range(2)]
    np.testing.assert_allclose(info["actor_loss"], -np.mean(of_states), rtol=1e-4)


def test_crossq_chooses_allowed_actions_alone_and_trains_on_a_nest():
    agent, kernels = crossq_agent(ONE, MASKED)
    masks, next_masks = [[0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]]
    batch = masked(minibatch([4, 5], ONE.dtype), masks, next_masks)
    info = agent.gradients(batch)[1].extra
    assert float(info["entropy"]) == pytest.approx(0, abs=1e-6)  # there is one choice
    states = batch.observation["x"].numpy() / np.sqrt(1 + 1e-3)
    q = [np.minimum(*(state @ kernel for kernel in kernels[1:])) for state in states]
    np.testing.assert_allclose(info["actor_loss"], -(q[0][1] + q[1][2]) / 2, rtol=1e-4)
    nested, _ = crossq_agent(NESTED)
    action = {"arm": tf.constant([[0.5], [-1.0]]), "grip": tf.constant([4, 5], tf.int64)}
    train = tf.function(nested.train, autograph=False)
    assert np.isfinite(train(minibatch([0, 0], tf.int64)._replace(action=action)).loss)


@pytest.mark.parametrize("name", ["tqc", "xqc", "td3", "ddpg"])
@pytest.mark.parametrize(("spec", "found"), [(ONE, "discrete .*"), (NESTED, "a dict of several")])
def test_algorithms_for_a_single_box_refuse_other_actions_by_name(name, spec, found):
    message = (
        f"algorithm is '{name}', but the environment's actions are {found}; "
        "expected 'sac' or 'crossq'"
    )
    with pytest.raises(ConfigError, match=message):
        make_agent(spec, algorithm=name)


def test_noise_of_a_colour_is_for_continuous_actions():
    for spec in (ONE, {"grip": ONE}):
        with pytest.raises(ConfigError, match="exploration_noise_beta is 1, but .* expected 0"):
            make_agent(spec, exploration_noise_beta=1.0)
    make_agent(NESTED, exploration_noise_beta=1.0)


def test_losses_of_an_arm_with_a_gripper_by_hand():
    """Losses are linear in the temperature of the arm, which multiplies random numbers.

    Its log std of -20 makes the arm's sample its mode.
    """
    agent, of_grip = make_agent(NESTED), 0.6
    networks, rng = agent.networks, np.random.default_rng(1)
    actor = np.concatenate([rng.normal(size=(2, 1)), np.zeros((2, 1)), rng.normal(size=(2, 3))], 1)
    networks.actor.head.projection.set_weights([actor, np.float32([0, -20, 0, 0, 0])])
    kernels = rng.normal(size=(4, 3, 3))  # (observation, arm) -> values of 3, 4 and 5
    critics = (*networks.critics, *networks.target_critics)
    for net, kernel in zip(critics, kernels, strict=True):
        net.value_layer.set_weights([kernel, np.zeros(3)])
    batch = minibatch([0, 0], tf.int64)._replace(
        action={"arm": tf.constant([[0.5], [-1.0]]), "grip": tf.constant([4, 5], tf.int64)}
    )
    found = []
    for of_arm in (0.2, 0.4):
        tf.random.set_seed(1)
        agent.temperature.log_alpha.assign(np.log([of_arm, of_grip]))
        found.append(agent.gradients(batch)[1].extra)
        assert float(found[-1]["alpha"]) == pytest.approx((of_arm + of_grip) / 2)
    without = {name: 2 * found[0][name] - found[1][name] for name in ("actor_loss", "td_target")}
    log_prob = (found[1]["actor_loss"] - found[0]["actor_loss"]) / (0.4 - 0.2)
    of_next = (found[1]["td_target"] - found[0]["td_target"]) / (0.4 - 0.2)

    def value(state, pair):
        """Returns V without the entropy of the arm, and the entropy of the gripper."""
        pi = softmax(state @ actor[:, 2:])
        inputs = np.concatenate([state, np.tanh(state @ actor[:, :1])])
        q = np.minimum(*(inputs @ kernels[k] for k in pair))
        return (pi * (q - of_grip * np.log(pi))).sum(), -(pi * np.log(pi)).sum()

    values, entropies = zip(*[value(s, (0, 1)) for s in batch.observation.numpy()], strict=True)
    np.testing.assert_allclose(without["actor_loss"], -np.mean(values), rtol=1e-4)
    # log pi = 20 - n^2 / 2 - log(2 pi) / 2 - log(1 - tanh^2), so about 20: an entropy of -20.
    np.testing.assert_allclose(log_prob, 20, atol=4)
    np.testing.assert_allclose(found[0]["entropy"], np.mean(entropies) - log_prob, rtol=1e-3)
    next_values = [value(s, (2, 3))[0] for s in batch.next_observation.numpy()]
    targets = batch.reward + GAMMA * batch.discount * next_values
    np.testing.assert_allclose(without["td_target"], np.mean(targets), rtol=1e-4)
    np.testing.assert_allclose(of_next, -GAMMA * 20 / 2, atol=2)  # one of two is not terminal
    rows = zip(batch.observation.numpy(), (0.5, -1.0), (1, 2), strict=True)
    taken = [np.append(state, arm) @ kernels[0][:, number] for state, arm, number in rows]
    np.testing.assert_allclose(found[0]["q_value"], np.mean(taken), rtol=1e-4)


@pytest.mark.parametrize("spec", [BRANCHES, NESTED], ids=["branches", "nested"])
def test_a_state_value_network_learns_the_soft_value(spec):
    agent = make_agent(spec, state_value_network=True)
    action = {"arm": tf.zeros([2, 1]), "grip": tf.constant([4, 5], tf.int64)}
    batch = minibatch([[1, 0], [0, 2]], tf.int32)
    if spec is NESTED:
        batch = batch._replace(action=action)
    tf.random.set_seed(1)
    info = agent.gradients(batch)[1].extra
    tf.random.set_seed(1)
    actor = losses.actor_loss(agent.networks, make_batch(batch, False, 0), agent.temperature.alpha)
    value = agent.networks.state_value(batch.observation)[0]
    expected = np.mean(0.5 * np.square(value - actor.soft_value))
    np.testing.assert_allclose(info["state_value_loss"], expected, rtol=1e-5)


def test_each_branch_and_the_arm_have_a_temperature_of_their_own():
    agent = make_agent({"arm": ARM, "tools": BRANCHES}, target_entropy=0.5)
    assert agent.temperature.log_alpha.shape == [1 + 2]
    np.testing.assert_allclose(agent.temperature.target_entropy, [0.5, 0.25, 0.25])
    log_prob = tf.constant([[1.0, -0.4, -0.2], [3.0, 9.0, 9.0]])
    agent.temperature.log_alpha.assign([0.3, 0.2, 0.1])
    loss, gradients = agent.temperature.loss(log_prob, tf.constant([1.0, 0.0]))
    excess = [1 + 0.5, -0.4 + 0.25, -0.2 + 0.25]
    np.testing.assert_allclose(gradients, [np.negative(excess)], rtol=1e-5)
    np.testing.assert_allclose(loss, -np.dot([0.3, 0.2, 0.1], excess), rtol=1e-5)


@pytest.mark.parametrize(
    ("spec", "mask", "expected"),
    [
        (ONE, [[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]], [1, np.log(2) / np.log(3), 0, 0]),
        (
            BRANCHES,
            [[1, 1, 0, 1, 1], [0, 1, 0, 1, 0]],
            [[1, np.log(2) / np.log(3)], [0, 0]],
        ),
        (NESTED, [[1, 0, 1], [0, 1, 0]], [[1, np.log(2) / np.log(3)], [1, 0]]),
    ],
    ids=["one", "branches", "nested"],
)
def test_the_share_of_the_entropy_that_a_mask_leaves(spec, mask, expected):
    share = action_head(spec).reachable_share(tf.constant(mask))
    np.testing.assert_allclose(share, expected, rtol=1e-6)


def test_where_one_integer_is_allowed_alpha_stays():
    agent = make_agent(ONE, MASKED)
    before = float(agent.temperature.log_alpha)
    for _ in range(3):
        agent.train(masked(minibatch([4, 5], ONE.dtype), [[0, 1, 0], [0, 0, 1]], [[1, 0, 1]] * 2))
    assert float(agent.temperature.log_alpha) == before
