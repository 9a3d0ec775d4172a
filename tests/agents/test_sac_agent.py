import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents import sac_agent
from tfagents_system.agents.sac_agent import SacAgent
from tfagents_system.networks.actor_networks import LstmActorNetwork, MlpActorNetwork
from tfagents_system.networks.critic_networks import LstmCriticNetwork, MlpCriticNetwork

FIRST, MID, LAST = (int(t) for t in (ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST))
OBSERVATION = tf.TensorSpec([1], tf.float32, "observation")


class FixedDistribution(tfp.distributions.Independent):
    """One action, and a log-probability of the test's choice."""

    def __init__(self, action, log_prob):
        self._fixed_log_prob = log_prob
        super().__init__(tfp.distributions.Deterministic(action), 1)

    def log_prob(self, value):
        return self._fixed_log_prob


class LinearActor(network.Network):
    """Action w s with log-probability k w s; with a state it counts as recurrent."""

    def __init__(self, k, state_spec=()):  # state_spec: of what it hands on unchanged
        super().__init__(OBSERVATION, state_spec, name="LinearActor")
        self.weight = tf.Variable(0.0)
        self._k = k

    def call(self, observation, step_type=None, network_state=(), training=False):
        action = self.weight * observation
        if not network_state:
            network_state = self.get_initial_state(tf.shape(observation)[0])
        return FixedDistribution(action, self._k * action[..., 0]), network_state


def action_spec(magnitude=1.0):
    return tensor_spec.BoundedTensorSpec([1], tf.float32, -magnitude, magnitude, "action")


def make_agent(actor=None, critic=None, magnitude=1.0, **kwargs):
    actor = actor or LinearActor(k=3.0)
    critic = critic or MlpCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=())
    return SacAgent(
        ts.time_step_spec(OBSERVATION),
        action_spec(magnitude),
        actor,
        critic,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
        **kwargs,
    )


def set_weights(net, values):
    for variable, value in zip(net.variables, values, strict=True):
        variable.assign(tf.reshape(tf.constant(value, tf.float32), variable.shape))


# Q_i(s, a) = x s + y a + z with (x, y), z:
CRITICS = [([1.0, 2.0], 0.5), ([2.0, -1.0], 0.25)]
TARGETS = [([3.0, 1.0], 0.0), ([-1.0, 4.0], 2.0)]
ACTOR_WEIGHT = 0.5
LOG_ALPHA = math.log(0.2)
GAMMA = 0.9


def linear_agent(**kwargs):
    """A feed-forward agent in which every number can be computed by hand."""
    agent = make_agent(gamma=GAMMA, initial_log_alpha=LOG_ALPHA, **kwargs)
    agent._actor.weight.assign(ACTOR_WEIGHT)
    for net, values in zip(agent._critics + agent._target_critics, CRITICS + TARGETS, strict=True):
        set_weights(net, values)
    return agent


def with_gradient_steps(agent):
    """Each update subtracts the gradient itself, so that a test can read it."""
    sgd = tf.keras.optimizers.legacy.SGD
    agent._actor_optimizer, agent._critic_optimizer, agent._alpha_optimizer = (
        sgd(1.0) for _ in range(3)
    )
    return agent


def experience(step_type, s, a, r, d, next_s):
    """A batch of transitions with one-dimensional observations and actions, [B] or [B, T] each."""
    step_type, r, d = tf.constant(step_type), tf.constant(r, tf.float32), tf.constant(d, tf.float32)
    s, a, next_s = (tf.constant(x, tf.float32)[..., tf.newaxis] for x in (s, a, next_s))
    return trajectory.Transition(
        ts.TimeStep(step_type, tf.zeros_like(r), tf.ones_like(r), s),
        policy_step.PolicyStep(a),
        ts.TimeStep(tf.fill(step_type.shape, MID), r, d, next_s),
    )


# Two transitions; the second is terminal.
BATCH = dict(step_type=[FIRST, MID], s=[1.0, -2.0], a=[0.5, 1.0], r=[1.0, 10.0], d=[1.0, 0.0],
             next_s=[2.0, 7.0])  # fmt: skip

# By hand, with the numbers above. The policy's action is s / 2, its log-probability 3 s / 2.
NEXT_Q = min(3 * 2 + 1 * 1 + 0, -1 * 2 + 4 * 1 + 2)  # target critics at (2, 1)
TD_TARGETS = [1 + GAMMA * 1 * (NEXT_Q - 0.2 * 3.0), 10.0]
Q_1 = [1 * 1 + 2 * 0.5 + 0.5, 1 * -2 + 2 * 1 + 0.5]
Q_2 = [2 * 1 - 1 * 0.5 + 0.25, 2 * -2 - 1 * 1 + 0.25]
CRITIC_LOSS = sum(
    0.5 * (q - y) ** 2 / 2 for qs in (Q_1, Q_2) for q, y in zip(qs, TD_TARGETS, strict=True)
)
POLICY_Q = [  # both critics at (1, 0.5) and (-2, -1)
    min(1 * 1 + 2 * 0.5 + 0.5, 2 * 1 - 1 * 0.5 + 0.25),  # 2.5 and 1.75
    min(1 * -2 + 2 * -1 + 0.5, 2 * -2 - 1 * -1 + 0.25),  # -3.5 and -2.75
]
LOG_PROBS = [3 * 0.5 * 1, 3 * 0.5 * -2]
ACTOR_LOSS = sum(0.2 * p - q for p, q in zip(LOG_PROBS, POLICY_Q, strict=True)) / 2
ALPHA_LOSS = -LOG_ALPHA * (sum(LOG_PROBS) / 2 + -1)  # target entropy -1 for one action in [-1, 1]


def test_soft_td_target_by_hand():
    target = sac_agent.soft_td_target(
        reward=np.float32([1, 5]),
        discount=np.float32([1, 0]),
        gamma=0.9,
        next_q_values=(np.float32([3, 30]), np.float32([2, 40])),
        next_log_prob=np.float32([-1, 50]),
        alpha=0.5,
    )
    np.testing.assert_allclose(target, [1 + 0.9 * 1 * (min(3, 2) - 0.5 * -1), 5], rtol=1e-6)


def test_losses_by_hand_leave_out_what_is_not_valid():
    valid = np.float32([1, 0])
    q_values = (np.float32([3, 99]), np.float32([5, 99]))
    critic_loss = sac_agent.critic_loss(q_values, np.float32([4, -99]), valid)
    np.testing.assert_allclose(critic_loss, 0.5 * (3 - 4) ** 2 + 0.5 * (5 - 4) ** 2)
    actor_loss = sac_agent.actor_loss(np.float32([2, 99]), q_values, 0.5, valid)
    np.testing.assert_allclose(actor_loss, 0.5 * 2 - min(3, 5))
    alpha_loss = sac_agent.alpha_loss(0.25, np.float32([2, 99]), -3.0, valid)
    np.testing.assert_allclose(alpha_loss, -0.25 * (2 - 3))


def test_batch_of_padding_alone_gives_zero_losses():
    agent = with_gradient_steps(linear_agent())
    before = [v.numpy() for v in agent._actor.variables + agent._critics[0].variables]
    loss_info = agent.train(experience(**BATCH | dict(step_type=[LAST, LAST])))
    assert loss_info.loss == 0
    after = [v.numpy() for v in agent._actor.variables + agent._critics[0].variables]
    assert all((x == y).all() for x, y in zip(before, after, strict=True))
    assert agent._log_alpha.numpy() == np.float32(LOG_ALPHA)


def test_losses_of_a_whole_train_step_by_hand():
    loss, info = linear_agent().train(experience(**BATCH))
    expected = sac_agent.SacInfo(
        critic_loss=CRITIC_LOSS,
        actor_loss=ACTOR_LOSS,
        alpha_loss=ALPHA_LOSS,
        alpha=0.2,
        entropy=-sum(LOG_PROBS) / 2,
        q_value=sum(Q_1) / 2,
        td_target=sum(TD_TARGETS) / 2,
    )
    np.testing.assert_allclose(info, expected, rtol=1e-5)
    np.testing.assert_allclose(loss, CRITIC_LOSS + ACTOR_LOSS + ALPHA_LOSS, rtol=1e-5)


def test_gradients_of_a_whole_train_step_by_hand():
    agent = with_gradient_steps(linear_agent(target_update_tau=1.0))
    agent.train(experience(**BATCH))
    for critic, q_values, ((x, y), z) in zip(agent._critics, (Q_1, Q_2), CRITICS, strict=True):
        errors = [q - target for q, target in zip(q_values, TD_TARGETS, strict=True)]
        x -= (errors[0] * 1.0 + errors[1] * -2.0) / 2
        y -= (errors[0] * 0.5 + errors[1] * 1.0) / 2
        z -= (errors[0] + errors[1]) / 2
        np.testing.assert_allclose(critic.variables[0][:, 0], [x, y], rtol=1e-5)
        np.testing.assert_allclose(critic.variables[1], [z], rtol=1e-5)
    # d/dw mean(0.2 * 3 w s - min Q): row 1 follows the second critic, dQ/dw = -s, row 2 the first,
    # dQ/dw = 2 s.
    gradient = ((0.2 * 3 * 1 - -1 * 1) + (0.2 * 3 * -2 - 2 * -2)) / 2
    np.testing.assert_allclose(agent._actor.weight, ACTOR_WEIGHT - gradient, rtol=1e-5)
    alpha_gradient = -(sum(LOG_PROBS) / 2 - 1)
    np.testing.assert_allclose(agent._log_alpha, LOG_ALPHA - alpha_gradient, rtol=1e-5)


def test_first_step_moves_every_weight_by_its_own_learning_rate():
    agent = linear_agent(
        actor_learning_rate=0.01, critic_learning_rate=0.02, alpha_learning_rate=0.03
    )
    agent.train(experience(**BATCH))  # Adam's first step: rate x sign of the gradient
    np.testing.assert_allclose(agent._actor.weight, 0.5 - 0.01, rtol=1e-5)  # gradient > 0
    np.testing.assert_allclose(agent._log_alpha, LOG_ALPHA - 0.03, rtol=1e-5)  # gradient > 0
    signs = np.sign([errors_times(Q_1, [1, -2]), errors_times(Q_1, [0.5, 1])])
    np.testing.assert_allclose(
        agent._critics[0].variables[0][:, 0], [1.0, 2.0] - 0.02 * signs, rtol=1e-5
    )


def errors_times(q_values, inputs):
    return sum((q - y) * x for q, y, x in zip(q_values, TD_TARGETS, inputs, strict=True))


def test_temperature_rises_when_the_entropy_is_below_its_target_and_falls_when_above():
    for k, direction in [(20.0, 1), (-20.0, -1)]:  # mean log-probability 10 and -10, target 1
        agent = make_agent(actor=LinearActor(k=k), initial_log_alpha=0.0)
        agent._actor.weight.assign(0.5)
        agent.train(experience([MID], [1.0], [0.0], [0.0], [1.0], [1.0]))
        assert np.sign(agent._log_alpha.numpy()) == direction


def test_time_limit_bootstraps_and_terminal_does_not():
    agent = linear_agent()
    ends = {}
    for name, discount in [("time limit", 1.0), ("terminal", 0.0)]:
        _, info = agent.train(experience([MID], [0.0], [0.0], [1.0], [discount], [2.0]))
        ends[name] = info.td_target.numpy()
        agent = linear_agent()
    assert ends["terminal"] == 1.0
    np.testing.assert_allclose(ends["time limit"], 1 + GAMMA * (NEXT_Q - 0.2 * 3.0), rtol=1e-6)


def test_order_of_the_batch_does_not_matter():
    rng = np.random.default_rng(0)
    batch = {name: rng.normal(size=6) for name in ("s", "a", "r", "next_s")}
    batch |= {"step_type": np.array([FIRST, MID, MID, LAST, MID, MID]), "d": rng.integers(0, 2, 6)}
    order = rng.permutation(6)
    agents = [linear_agent(), linear_agent()]
    infos = [
        agent.train(experience(**{k: v[rows] for k, v in batch.items()})).extra
        for agent, rows in zip(agents, (np.arange(6), order), strict=True)
    ]
    np.testing.assert_allclose(*infos, rtol=1e-5)
    for one, other in zip(agents[0].variables, agents[1].variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_train_in_a_tf_function_equals_train():
    eager, compiled = linear_agent(target_update_period=2), linear_agent(target_update_period=2)
    train = tf.function(compiled.train, autograph=False)
    for _ in range(3):
        np.testing.assert_allclose(
            eager.train(experience(**BATCH)).extra, train(experience(**BATCH)).extra, rtol=1e-5
        )
    assert compiled.train_step_counter.numpy() == 3
    for one, other in zip(eager.variables, compiled.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def weights_of(nets):
    return [v.numpy() for net in nets for v in net.variables]


def test_targets_equal_the_critics_at_the_start_and_the_twins_differ():
    agent = make_agent()
    for critic, target in zip(agent._critics, agent._target_critics, strict=True):
        for one, other in zip(critic.variables, target.variables, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one is not other
    assert (agent._critics[0].variables[0] != agent._critics[1].variables[0]).numpy().any()


def test_soft_update_moves_the_target_by_tau_towards_the_updated_critic():
    agent = linear_agent(target_update_tau=0.25, critic_learning_rate=0.1)
    before = weights_of(agent._target_critics)
    agent.train(experience(**BATCH))
    critics, after = weights_of(agent._critics), weights_of(agent._target_critics)
    for old, critic, new in zip(before, critics, after, strict=True):
        np.testing.assert_allclose(new, 0.75 * old + 0.25 * critic, rtol=1e-5)


def test_targets_are_updated_every_second_step_with_a_period_of_two():
    agent = linear_agent(target_update_tau=0.5, target_update_period=2)
    changed = []
    for _ in range(4):
        before = weights_of(agent._target_critics)
        agent.train(experience(**BATCH))
        after = weights_of(agent._target_critics)
        changed.append(any((x != y).any() for x, y in zip(before, after, strict=True)))
    assert changed == [False, True, False, True]


def gradient_norm(before, nets):
    return math.sqrt(
        sum(((x - y) ** 2).sum() for x, y in zip(before, weights_of(nets), strict=True))
    )


def test_gradient_of_each_network_is_clipped_to_its_own_norm():
    clipped = with_gradient_steps(linear_agent(gradient_clipping=0.5))
    free = with_gradient_steps(linear_agent())
    networks = [[agent._actor, *agent._critics] for agent in (clipped, free)]
    before = [weights_of([net]) for net in networks[0]]
    for agent in (clipped, free):
        agent.train(experience(**BATCH))
    for old, clipped_net, free_net in zip(before, *networks, strict=True):
        assert gradient_norm(old, [free_net]) > 0.5
        assert gradient_norm(old, [clipped_net]) == pytest.approx(0.5, rel=1e-4)
        scale = 0.5 / gradient_norm(old, [free_net])
        for x, y, z in zip(old, weights_of([clipped_net]), weights_of([free_net]), strict=True):
            np.testing.assert_allclose(x - y, (x - z) * scale, rtol=1e-3, atol=1e-6)


def test_gradient_below_the_norm_is_not_clipped():
    clipped = with_gradient_steps(linear_agent(gradient_clipping=1e6))
    free = with_gradient_steps(linear_agent())
    for agent in (clipped, free):
        agent.train(experience(**BATCH))
    for one, other in zip(clipped.variables, free.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(("magnitude", "entropy"), [(1.0, -1), (4.0, -1 + math.log(4))])
def test_target_entropy_is_minus_one_per_dimension_of_the_unscaled_action(magnitude, entropy):
    assert make_agent(magnitude=magnitude)._target_entropy == pytest.approx(entropy)


def test_target_entropy_of_several_dimensions_with_different_scales():
    spec = tensor_spec.BoundedTensorSpec([2], tf.float32, [-2, 0], [2, 1], "action")
    agent = SacAgent(
        ts.time_step_spec(OBSERVATION),
        spec,
        MlpActorNetwork(OBSERVATION, spec, fc_layer_params=()),
        MlpCriticNetwork((OBSERVATION, spec), joint_fc_layer_params=()),
        train_step_counter=tf.Variable(0, dtype=tf.int64),
    )
    assert agent._target_entropy == pytest.approx(math.log(2) + math.log(0.5) - 2)


def test_scaled_actions_shift_the_entropy_but_not_the_gradient_of_the_temperature():
    infos, log_alphas = [], []
    for magnitude in (1.0, 10.0):
        spec = action_spec(magnitude)
        actor = MlpActorNetwork(OBSERVATION, spec, fc_layer_params=())
        agent = with_gradient_steps(make_agent(actor=actor, magnitude=magnitude))
        set_weights(actor, [[0.3, 0.1], [0.0, -1.0]])
        tf.random.set_seed(1)
        infos.append(agent.train(experience(**BATCH)).extra)
        log_alphas.append(agent._log_alpha.numpy())
    np.testing.assert_allclose(infos[1].entropy, infos[0].entropy + math.log(10), rtol=1e-4)
    np.testing.assert_allclose(*log_alphas, rtol=1e-4)
    assert abs(log_alphas[0] - 1.0) > 0.01  # it did move


def test_padding_has_no_influence_on_feed_forward_training():
    batch = {name: values + [values[0]] for name, values in BATCH.items()} | {
        "step_type": [FIRST, MID, LAST]
    }
    other = {name: values[:2] + [-9.0] for name, values in batch.items() if name != "step_type"}
    agents = [linear_agent(), linear_agent(), linear_agent()]
    batches = [BATCH, batch, other | {"step_type": [FIRST, MID, LAST]}]
    infos = [a.train(experience(**b)).extra for a, b in zip(agents, batches, strict=True)]
    np.testing.assert_allclose(infos[1], infos[0], rtol=1e-6)
    np.testing.assert_allclose(infos[2], infos[0], rtol=1e-6)
    for variables in zip(*(agent.variables for agent in agents), strict=True):
        np.testing.assert_allclose(variables[1], variables[0], rtol=1e-6)
        np.testing.assert_allclose(variables[2], variables[0], rtol=1e-6)


UNITS = 3


def recurrent_agent(**kwargs):
    """LSTM networks with seeded weights and a policy whose actions hardly vary."""
    actor = LstmActorNetwork(OBSERVATION, action_spec(), fc_layer_params=(UNITS,))
    critic = LstmCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=(UNITS, UNITS))
    agent = make_agent(actor, critic, gamma=GAMMA, **kwargs)
    rng = np.random.default_rng(3)
    for variable in actor.variables + [
        v for net in agent._critics + agent._target_critics for v in net.variables
    ]:
        variable.assign(rng.normal(size=variable.shape))
    return agent


SEQUENCES = dict(
    step_type=[[FIRST, MID, MID, MID], [MID, MID, LAST, LAST]],  # the second row is padded
    s=[[0.1, 0.7, -0.4, 0.9], [-0.8, 0.3, 1.5, 1.5]],
    a=[[0.2, -0.1, 0.9, 0.0], [0.4, -0.6, 0.5, 0.5]],
    r=[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 0.0]],
    d=[[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]],
    next_s=[[0.7, -0.4, 0.9, -1.1], [0.3, 1.5, 1.5, 1.5]],
)


def test_recurrent_target_uses_the_state_after_all_observations_up_to_the_next():
    agent = recurrent_agent(initial_log_alpha=-100.0)  # alpha = 0: the noise in log pi is no matter
    agent._actor.variables[-1].assign([0.1, -100.0])  # standard deviation exp(-20)
    batch = experience(**SEQUENCES)
    expected = np.zeros((2, 4))
    states = [net.get_initial_state(2) for net in (agent._actor, *agent._target_critics)]
    observations = tf.concat([batch.time_step.observation[:, :1],
                              batch.next_time_step.observation], axis=1)  # fmt: skip
    for t in range(5):  # s_0, s_1 ... s_4, one step at a time
        mid = tf.constant([MID, MID])
        distribution, states[0] = agent._actor(observations[:, t], mid, states[0])
        values = []
        for index, critic in enumerate(agent._target_critics, start=1):
            value, states[index] = critic(
                (observations[:, t], distribution.mode()), mid, states[index]
            )
            values.append(value)
        if t > 0:
            r, d = np.array(SEQUENCES["r"])[:, t - 1], np.array(SEQUENCES["d"])[:, t - 1]
            expected[:, t - 1] = r + GAMMA * d * np.minimum(*values)
    target = agent._td_target(batch, tf.exp(agent._log_alpha))
    np.testing.assert_allclose(target, expected, rtol=1e-4, atol=1e-5)


def test_recurrent_target_takes_the_log_prob_of_the_next_step():
    state_spec = [tf.TensorSpec([1], tf.float32)]
    agent = make_agent(LinearActor(3.0, state_spec), gamma=GAMMA, initial_log_alpha=LOG_ALPHA)
    agent._actor.weight.assign(ACTOR_WEIGHT)
    for target in agent._target_critics:
        set_weights(target, [[0.0, 0.0], 0.0])
    target = agent._td_target(experience(**SEQUENCES), tf.exp(agent._log_alpha))
    r, d, next_s = (np.array(SEQUENCES[name]) for name in ("r", "d", "next_s"))
    expected = r + GAMMA * d * (0 - 0.2 * 3 * 0.5 * next_s)
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-6)


def test_recurrent_q_values_use_the_state_after_the_observations_so_far():
    agent = recurrent_agent()
    batch = experience(**SEQUENCES)
    (q_values,) = agent._values(agent._critics[:1], batch.time_step, batch.action_step.action)
    state = agent._critics[0].get_initial_state(2)
    for t in range(4):
        inputs = batch.time_step.observation[:, t], batch.action_step.action[:, t]
        value, state = agent._critics[0](inputs, tf.constant([MID, MID]), state)
        np.testing.assert_allclose(q_values[:, t], value, rtol=1e-4, atol=1e-5)


def test_padding_has_no_influence_on_recurrent_training():
    changed = {name: [row[:] for row in rows] for name, rows in SEQUENCES.items()}
    for name in ("s", "a", "r", "d", "next_s"):
        changed[name][1][2:] = [-3.0, 0.5]
    results = []
    for batch in (SEQUENCES, changed):
        agent = recurrent_agent()
        tf.random.set_seed(5)
        info = agent.train(experience(**batch)).extra
        results.append((info, [v.numpy() for v in agent.variables]))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5)
    for one, other in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


def test_recurrent_training_changes_all_weights_of_actor_and_critics():
    agent = recurrent_agent()
    nets = [agent._actor, *agent._critics]
    before = weights_of(nets)
    two_steps = {name: [row[:2] for row in rows] for name, rows in SEQUENCES.items()}
    tf.function(agent.train, autograph=False)(experience(**two_steps))
    changed = [(x != y).any() for x, y in zip(before, weights_of(nets), strict=True)]
    assert all(changed)
