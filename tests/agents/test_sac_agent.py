import math

import numpy as np
import pytest
import tensorflow as tf
from kernel_marks import needs_int16
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    CRITICS,
    FIRST,
    GAMMA,
    LAST,
    LOG_ALPHA,
    MID,
    OBSERVATION,
    LinearActor,
    action_spec,
    linear_agent,
    make_agent,
    numbers,
    transition,
    weights_of,
    with_gradient_steps,
)
from tf_agents.specs import tensor_spec

from tfagents_system.agents import agent as agent_module
from tfagents_system.agents.losses import valid_mean
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.temperature import Temperature
from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.critic_networks import MlpCriticNetwork

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
    target = sac_losses.soft_td_target(
        reward=np.float32([1, 5]),
        discount=np.float32([1, 0]),
        gamma=0.9,
        next_q_value=sac_losses.smallest((np.float32([3, 30]), np.float32([2, 40]))),
        next_log_prob=np.float32([-1, 50]),
        alpha=0.5,
    )
    np.testing.assert_allclose(target, [1 + 0.9 * 1 * (min(3, 2) - 0.5 * -1), 5], rtol=1e-6)


def test_losses_by_hand_leave_out_what_is_not_valid():
    valid = np.float32([1, 0])
    q_values = (np.float32([3, 99]), np.float32([5, 99]))
    critic_loss = sac_losses.half_squared_errors(q_values, np.float32([4, -99]), valid)
    np.testing.assert_allclose(critic_loss, 0.5 * (3 - 4) ** 2 + 0.5 * (5 - 4) ** 2)
    soft_value = sac_losses.soft_value(
        sac_losses.smallest(q_values), log_prob=np.float32([2, 99]), alpha=0.5
    )
    np.testing.assert_allclose(valid_mean(soft_value, valid), min(3, 5) - 0.5 * 2)
    temperature = Temperature(initial_log_alpha=0.25, target_entropy=-3.0)
    alpha_loss, gradients = temperature.loss(np.float32([2, 99]), valid)
    np.testing.assert_allclose(alpha_loss, -0.25 * (2 - 3))
    np.testing.assert_allclose(gradients, [-(2 - 3)])


def test_batch_of_padding_alone_gives_zero_losses():
    agent = with_gradient_steps(linear_agent())
    before = [
        v.numpy() for v in agent.networks.actor.variables + agent.networks.critics[0].variables
    ]
    loss_info = agent.train(transition(**BATCH | dict(step_type=[LAST, LAST])))
    assert loss_info.loss == 0
    after = [
        v.numpy() for v in agent.networks.actor.variables + agent.networks.critics[0].variables
    ]
    assert all((x == y).all() for x, y in zip(before, after, strict=True))
    assert agent.temperature.log_alpha.numpy() == np.float32(LOG_ALPHA)


def test_losses_of_a_whole_train_step_by_hand():
    loss, info = linear_agent().train(transition(**BATCH))
    expected = dict(
        critic_loss=CRITIC_LOSS,
        actor_loss=ACTOR_LOSS,
        alpha_loss=ALPHA_LOSS,
        alpha=0.2,
        actor_steps=1,
        entropy=-sum(LOG_PROBS) / 2,
        q_value=sum(Q_1) / 2,
        td_target=sum(TD_TARGETS) / 2,
        actor_learning_rate=3e-4,
    )
    assert info.keys() == expected.keys()
    np.testing.assert_allclose(numbers(info), numbers(expected), rtol=1e-5)
    np.testing.assert_allclose(loss, CRITIC_LOSS + ACTOR_LOSS + ALPHA_LOSS, rtol=1e-5)


def test_gradients_of_a_whole_train_step_by_hand():
    agent = with_gradient_steps(linear_agent(target_update_tau=1.0))
    agent.train(transition(**BATCH))
    for critic, q_values, ((x, y), z) in zip(
        agent.networks.critics, (Q_1, Q_2), CRITICS, strict=True
    ):
        errors = [q - target for q, target in zip(q_values, TD_TARGETS, strict=True)]
        x -= (errors[0] * 1.0 + errors[1] * -2.0) / 2
        y -= (errors[0] * 0.5 + errors[1] * 1.0) / 2
        z -= (errors[0] + errors[1]) / 2
        np.testing.assert_allclose(critic.variables[0][:, 0], [x, y], rtol=1e-5)
        np.testing.assert_allclose(critic.variables[1], [z], rtol=1e-5)
    # d/dw mean(0.2 * 3 w s - min Q): row 1 follows the second critic, dQ/dw = -s, row 2 the first,
    # dQ/dw = 2 s.
    gradient = ((0.2 * 3 * 1 - -1 * 1) + (0.2 * 3 * -2 - 2 * -2)) / 2
    np.testing.assert_allclose(agent.networks.actor.weight, ACTOR_WEIGHT - gradient, rtol=1e-5)
    alpha_gradient = -(sum(LOG_PROBS) / 2 - 1)
    np.testing.assert_allclose(agent.temperature.log_alpha, LOG_ALPHA - alpha_gradient, rtol=1e-5)


def test_first_step_moves_every_weight_by_its_own_learning_rate():
    agent = linear_agent(
        actor_learning_rate=0.01, critic_learning_rate=0.02, alpha_learning_rate=0.03
    )
    agent.train(transition(**BATCH))  # Adam's first step: rate x sign of the gradient
    np.testing.assert_allclose(agent.networks.actor.weight, 0.5 - 0.01, rtol=1e-5)  # gradient > 0
    np.testing.assert_allclose(
        agent.temperature.log_alpha, LOG_ALPHA - 0.03, rtol=1e-5
    )  # gradient > 0
    signs = np.sign([errors_times(Q_1, [1, -2]), errors_times(Q_1, [0.5, 1])])
    np.testing.assert_allclose(
        agent.networks.critics[0].variables[0][:, 0], [1.0, 2.0] - 0.02 * signs, rtol=1e-5
    )


def errors_times(q_values, inputs):
    return sum((q - y) * x for q, y, x in zip(q_values, TD_TARGETS, inputs, strict=True))


def test_temperature_rises_when_the_entropy_is_below_its_target_and_falls_when_above():
    for k, direction in [(20.0, 1), (-20.0, -1)]:  # mean log-probability 10 and -10, target 1
        agent = make_agent(actor=LinearActor(k=k), sac_log_alpha=0.0)
        agent.networks.actor.weight.assign(0.5)
        agent.train(transition([MID], [1.0], [0.0], [0.0], [1.0], [1.0]))
        assert np.sign(agent.temperature.log_alpha.numpy()) == direction


def test_time_limit_bootstraps_and_terminal_does_not():
    agent = linear_agent()
    ends = {}
    for name, discount in [("time limit", 1.0), ("terminal", 0.0)]:
        _, info = agent.train(transition([MID], [0.0], [0.0], [1.0], [discount], [2.0]))
        ends[name] = info["td_target"].numpy()
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
        numbers(agent.train(transition(**{k: v[rows] for k, v in batch.items()})).extra)
        for agent, rows in zip(agents, (np.arange(6), order), strict=True)
    ]
    np.testing.assert_allclose(*infos, rtol=1e-5)
    for one, other in zip(agents[0].variables, agents[1].variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_train_in_a_tf_function_equals_train():
    eager, compiled = linear_agent(target_update_period=2), linear_agent(target_update_period=2)
    train = tf.function(compiled.train, autograph=False)
    for _ in range(3):
        infos = [numbers(f(transition(**BATCH)).extra) for f in (eager.train, train)]
        np.testing.assert_allclose(*infos, rtol=1e-5)
    assert compiled.train_step_counter.numpy() == 3
    for one, other in zip(eager.variables, compiled.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_targets_equal_the_critics_at_the_start_and_the_twins_differ():
    agent = make_agent()
    for critic, target in zip(agent.networks.critics, agent.networks.target_critics, strict=True):
        for one, other in zip(critic.variables, target.variables, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one is not other
    assert (
        (agent.networks.critics[0].variables[0] != agent.networks.critics[1].variables[0])
        .numpy()
        .any()
    )


def test_soft_update_moves_the_target_by_tau_towards_the_updated_critic():
    agent = linear_agent(target_update_tau=0.25, critic_learning_rate=0.1)
    before = weights_of(agent.networks.target_critics)
    agent.train(transition(**BATCH))
    critics, after = weights_of(agent.networks.critics), weights_of(agent.networks.target_critics)
    for old, critic, new in zip(before, critics, after, strict=True):
        np.testing.assert_allclose(new, 0.75 * old + 0.25 * critic, rtol=1e-5)


def test_targets_are_updated_every_second_step_with_a_period_of_two():
    agent = linear_agent(target_update_tau=0.5, target_update_period=2)
    changed = []
    for _ in range(4):
        before = weights_of(agent.networks.target_critics)
        agent.train(transition(**BATCH))
        after = weights_of(agent.networks.target_critics)
        changed.append(any((x != y).any() for x, y in zip(before, after, strict=True)))
    assert changed == [False, True, False, True]


def gradient_norm(before, nets):
    return math.sqrt(
        sum(((x - y) ** 2).sum() for x, y in zip(before, weights_of(nets), strict=True))
    )


def test_gradient_of_each_network_is_clipped_to_its_own_norm():
    clipped = with_gradient_steps(linear_agent(gradient_clipping=0.5))
    free = with_gradient_steps(linear_agent())
    networks = [[agent.networks.actor, *agent.networks.critics] for agent in (clipped, free)]
    before = [weights_of([net]) for net in networks[0]]
    for agent in (clipped, free):
        agent.train(transition(**BATCH))
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
        agent.train(transition(**BATCH))
    for one, other in zip(clipped.variables, free.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_target_entropy_is_minus_one_per_dimension():
    spec = tensor_spec.BoundedTensorSpec([2], tf.float32, [-2, 0], [2, 1], "action")
    agent = make_agent(
        MlpActorNetwork(OBSERVATION, spec, fc_layer_params=()),
        MlpCriticNetwork((OBSERVATION, spec), joint_fc_layer_params=()),
        spec=spec,
    )
    assert agent.temperature.target_entropy == -2


def test_entropy_is_that_of_actions_scaled_to_one():
    entropies = []
    for magnitude in (1.0, 10.0):
        actor = LinearActor(k=3.0)  # log pi of actions as they are: 3 w s
        agent = make_agent(actor, magnitude=magnitude)
        actor.weight.assign(ACTOR_WEIGHT)
        entropies.append(float(agent.train(transition(**BATCH)).extra["entropy"]))
    mean = 3 * ACTOR_WEIGHT * (1 - 2) / 2
    np.testing.assert_allclose(entropies, [-mean, -(mean + math.log(10))], rtol=1e-6)


def test_gradients_change_nothing_and_applying_them_is_a_train_step():
    apart, together = linear_agent(gradient_clipping=0.5), linear_agent(gradient_clipping=0.5)
    before = [variable.numpy() for variable in apart.variables]
    gradients, loss_info = apart.gradients(transition(**BATCH))
    for variable, old in zip(apart.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)
    expected = together.train(transition(**BATCH))
    apart.apply_gradients(gradients)
    np.testing.assert_allclose(loss_info.loss, expected.loss, rtol=1e-6)
    np.testing.assert_allclose(numbers(loss_info.extra), numbers(expected.extra), rtol=1e-6)
    for one, other in zip(apart.variables, together.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert int(apart.train_step_counter) == 1


def test_padding_has_no_influence_on_feed_forward_training():
    batch = {name: values + [values[0]] for name, values in BATCH.items()} | {
        "step_type": [FIRST, MID, LAST]
    }
    other = {name: values[:2] + [-9.0] for name, values in batch.items() if name != "step_type"}
    agents = [linear_agent(), linear_agent(), linear_agent()]
    batches = [BATCH, batch, other | {"step_type": [FIRST, MID, LAST]}]
    infos = [numbers(a.train(transition(**b)).extra) for a, b in zip(agents, batches, strict=True)]
    np.testing.assert_allclose(infos[1], infos[0], rtol=1e-6)
    np.testing.assert_allclose(infos[2], infos[0], rtol=1e-6)
    for variables in zip(*(agent.variables for agent in agents), strict=True):
        np.testing.assert_allclose(variables[1], variables[0], rtol=1e-6)
        np.testing.assert_allclose(variables[2], variables[0], rtol=1e-6)


@pytest.mark.parametrize(
    "arithmetic, rtol_of_values, rtol",
    [("bfloat16", 0, 0.02), pytest.param("int16", 1e-4, 1e-3, marks=needs_int16)],
)
def test_a_train_step_in_16_bits_agrees_with_one_in_float32(
    monkeypatch, arithmetic, rtol_of_values, rtol
):
    monkeypatch.setattr(agent_module, "resolve", lambda precision, host: precision)
    first_q_values, infos = [], []
    for precision in ("float32", arithmetic):
        tf.keras.utils.set_random_seed(1)
        agent = make_agent(
            actor=MlpActorNetwork(OBSERVATION, action_spec(), fc_layer_params=(32, 32)),
            critic=MlpCriticNetwork((OBSERVATION, action_spec()), joint_fc_layer_params=(32, 32)),
            matmul_precision=precision,
        )
        first_q_values.append(float(agent.train(transition(**BATCH)).extra["q_value"]))
        infos.append(numbers(agent.train(transition(**BATCH)).extra))
    # Values in the TD error are float32, or integers that are nearly as exact.
    np.testing.assert_allclose(*first_q_values, rtol=rtol_of_values)
    assert infos[0] != infos[1]
    np.testing.assert_allclose(infos[1], infos[0], rtol=rtol, atol=rtol / 2)
