"""SAC with a state-value network: losses, targets and updates against numbers computed by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import (
    BATCH,
    CRITICS,
    GAMMA,
    MID,
    OBSERVATION,
    make_agent,
    set_weights,
    transition,
    weights_of,
    with_gradient_steps,
)

from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.networks.critic_networks import MlpValueNetwork

# The action is s / 2, its log-probability 3 s / 2.
ALPHA = 0.2
VALUE, TARGET_VALUE = (2.0, 1.0), (4.0, -3.0)  # V(s) = x s + y: x, y

VALUES = [2 * 1 + 1, 2 * -2 + 1]
POLICY_Q = [  # both critics at (1, 0.5) and (-2, -1)
    min(1 * 1 + 2 * 0.5 + 0.5, 2 * 1 - 1 * 0.5 + 0.25),
    min(1 * -2 + 2 * -1 + 0.5, 2 * -2 - 1 * -1 + 0.25),
]
VALUE_TARGETS = [
    q - ALPHA * log_prob for q, log_prob in zip(POLICY_Q, [3 * 0.5, 3 * -1.0], strict=True)
]
TD_TARGETS = [1 + GAMMA * 1 * (4 * 2 - 3), 10.0]


def state_value_agent(**kwargs):
    network = MlpValueNetwork(OBSERVATION, fc_layer_params=())
    agent = make_agent(
        discount=GAMMA,
        sac_log_alpha=math.log(ALPHA),
        state_value_network=True,
        state_value=network,
        **kwargs,
    )
    agent.networks.actor.weight.assign(0.5)
    for critic, values in zip(agent.networks.critics, CRITICS, strict=True):
        set_weights(critic, values)
    set_weights(agent.networks.state_value, VALUE)
    set_weights(agent.networks.target_state_value, TARGET_VALUE)
    return agent


def flat_weights_of(nets):
    return np.concatenate([weights.ravel() for weights in weights_of(nets)])


def test_losses_by_hand_leave_out_what_is_not_valid():
    target = sac_losses.soft_value(np.float32([3]), np.float32([4]), 0.5)
    np.testing.assert_allclose(target, [3 - 0.5 * 4])
    values = [np.float32([3, 9])]
    loss = sac_losses.half_squared_errors(values, np.float32([5, 0]), np.float32([1, 0]))
    np.testing.assert_allclose(loss, 0.5 * (3 - 5) ** 2)


def test_a_train_step_by_hand():
    agent = with_gradient_steps(state_value_agent(target_update_tau=0.25))
    _, info = agent.train(transition(**BATCH))
    np.testing.assert_allclose(info["td_target"], sum(TD_TARGETS) / 2, rtol=1e-5)
    errors = [v - target for v, target in zip(VALUES, VALUE_TARGETS, strict=True)]
    np.testing.assert_allclose(
        info["state_value_loss"], sum(e**2 for e in errors) / 2 / 2, rtol=1e-5
    )
    gradient = [(errors[0] * 1 + errors[1] * -2) / 2, sum(errors) / 2]
    x, y = (value - g for value, g in zip(VALUE, gradient, strict=True))
    np.testing.assert_allclose(flat_weights_of([agent.networks.state_value]), [x, y], rtol=1e-5)
    expected = [0.75 * TARGET_VALUE[0] + 0.25 * x, 0.75 * TARGET_VALUE[1] + 0.25 * y]
    np.testing.assert_allclose(
        flat_weights_of([agent.networks.target_state_value]), expected, rtol=1e-5
    )


def test_critics_have_no_targets_and_the_value_of_its_target_is_its_own():
    value = MlpValueNetwork(OBSERVATION, fc_layer_params=(3,))
    agent = make_agent(state_value_network=True, state_value=value)
    assert len(agent.networks.critics) == 2
    assert agent.networks.target_critics == []
    value, target = agent.networks.state_value, agent.networks.target_state_value
    for one, other in zip(value.variables, target.variables, strict=True):
        assert one is not other
        np.testing.assert_array_equal(one, other)


def test_a_termination_does_not_bootstrap_and_a_time_limit_does():
    for discount, expected in [(0.0, 1.0), (1.0, 1 + GAMMA * (4 * 2 - 3))]:
        _, info = state_value_agent().train(
            transition([MID], [0.0], [0.0], [1.0], [discount], [2.0])
        )
        np.testing.assert_allclose(info["td_target"], expected, rtol=1e-6)


def test_train_in_a_tf_function_equals_train():
    eager, compiled = state_value_agent(), state_value_agent()
    train = tf.function(compiled.train, autograph=False)
    for _ in range(3):
        losses = [f(transition(**BATCH)).loss for f in (eager.train, train)]
        assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-5)
    for one, other in zip(eager.variables, compiled.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
