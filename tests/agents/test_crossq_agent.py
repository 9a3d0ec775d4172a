"""CrossQ: a train step by hand, its delay, and what it has not: targets."""

import numpy as np
import tensorflow as tf
from sac_fakes import (
    ACTOR_WEIGHT,
    BATCH,
    CRITICS,
    GAMMA,
    LOG_ALPHA,
    OBSERVATION,
    LinearActor,
    action_spec,
    make_agent,
    set_weights,
    transition,
    with_gradient_steps,
)

from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

EPSILON = 1e-3
# The replayed pairs, then the next states with the policy's actions: of (s, a) in this order, the
# moments are of all four.
ROWS = np.float64([[1, 0.5], [-2, 1], [2, 0.5 * 2], [7, 0.5 * 7]])
MEAN, VARIANCE = ROWS.mean(axis=0), ROWS.var(axis=0)


def q_of(values, rows=ROWS):
    weights, bias = values
    return (rows - MEAN) / np.sqrt(VARIANCE + EPSILON) @ weights + bias


Q_VALUES, NEXT_Q_VALUES = zip(*(np.split(q_of(values), 2) for values in CRITICS), strict=True)
NEXT_LOG_PROB = 3 * 0.5 * 2
TD_TARGETS = [1 + GAMMA * (min(q[0] for q in NEXT_Q_VALUES) - 0.2 * NEXT_LOG_PROB), 10.0]


def crossq_agent(actor=None, **settings):
    critic = NormalizingCriticNetwork((OBSERVATION, action_spec()), (), RenormalizedLayers)
    agent = make_agent(
        actor or LinearActor(k=3.0), critic, algorithm="crossq", discount=GAMMA,
        sac_log_alpha=LOG_ALPHA, **{"policy_delay": 1} | settings,
    )  # fmt: skip
    if actor is None:
        agent.networks.actor.weight.assign(ACTOR_WEIGHT)
    for net, values in zip(agent.networks.critics, CRITICS, strict=True):
        set_weights(net.layers_of_value.output_layer, values)
    return agent


def test_losses_by_hand():
    _, info = crossq_agent().train(transition(**BATCH))
    critic_loss = sum(
        0.5 * (q - y) ** 2 / 2 for qs in Q_VALUES for q, y in zip(qs, TD_TARGETS, strict=True)
    )
    np.testing.assert_allclose(info["critic_loss"], critic_loss, rtol=1e-4)
    np.testing.assert_allclose(info["q_value"], sum(Q_VALUES[0]) / 2, rtol=1e-4)
    np.testing.assert_allclose(info["td_target"], sum(TD_TARGETS) / 2, rtol=1e-4)
    # The actor is judged by the running moments, which begin at 0 and 1.
    scale = 1 / np.sqrt(1 + EPSILON)
    q_values = [min(scale * (w[0] * s + w[1] * s / 2) + b for w, b in CRITICS) for s in BATCH["s"]]
    log_probs = [3 * 0.5 * s for s in BATCH["s"]]
    actor_loss = sum(0.2 * p - q for p, q in zip(log_probs, q_values, strict=True)) / 2
    np.testing.assert_allclose(info["actor_loss"], actor_loss, rtol=1e-4)


def test_an_update_by_hand_leaves_targets_out_of_the_gradient():
    agent = with_gradient_steps(crossq_agent())
    agent.train(transition(**BATCH))
    inputs = (ROWS[:2] - MEAN) / np.sqrt(VARIANCE + EPSILON)
    for critic, q_values, (weights, bias) in zip(
        agent.networks.critics, Q_VALUES, CRITICS, strict=True
    ):
        errors = (q_values - np.float64(TD_TARGETS)) / 2
        kernel = critic.layers_of_value.output_layer.kernel[:, 0]
        np.testing.assert_allclose(kernel, weights - errors @ inputs, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(
            critic.layers_of_value.output_layer.bias, [bias - errors.sum()], rtol=1e-4
        )
        (normalization,) = critic.layers_of_value.normalizations
        np.testing.assert_allclose(normalization.mean, 0.01 * MEAN, rtol=1e-5)
        np.testing.assert_allclose(normalization.variance, 1 + 0.01 * (VARIANCE - 1), rtol=1e-5)


def test_gradients_alone_change_no_variable():
    agent = crossq_agent()
    before = [variable.numpy() for variable in agent.variables]
    agent.gradients(transition(**BATCH))
    for one, other in zip(before, agent.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_there_are_no_targets_and_adam_has_half_the_momentum():
    agent = crossq_agent()
    assert agent.networks.target_critics == []
    optimizers = (agent.actor_optimizer, agent.critic_optimizer, agent.temperature.optimizer)
    assert [optimizer.beta_1 for optimizer in optimizers] == [0.5] * 3


def test_actor_and_temperature_move_every_third_step_and_metrics_tell_which():
    agent = crossq_agent(policy_delay=3, critic_learning_rate=1e-9)
    train = tf.function(agent.train, autograph=False)
    changes, metrics = [], []
    for _ in range(3):
        before = float(agent.networks.actor.weight), float(agent.temperature.log_alpha)
        info = train(transition(**BATCH)).extra
        metrics.append((float(info["actor_steps"]), float(info["entropy"])))
        after = float(agent.networks.actor.weight), float(agent.temperature.log_alpha)
        changes.append([a != b for a, b in zip(before, after, strict=True)])
    assert changes == [[False, False], [False, False], [True, True]]
    entropy = -sum(3 * 0.5 * s for s in BATCH["s"]) / 2
    np.testing.assert_allclose(metrics, [(0, 0), (0, 0), (1, entropy)], rtol=1e-5)


def test_the_running_moments_of_its_actor_are_those_of_the_observations_that_it_is_trained_on():
    actor = NormalizingActorNetwork(OBSERVATION, action_spec(), (4,), RenormalizedLayers)
    agent = crossq_agent(actor, policy_delay=2)
    train = tf.function(agent.train, autograph=False)
    first, *_ = actor.layers_of_head.normalizations
    train(transition(**BATCH))
    assert (first.mean.numpy(), first.variance.numpy()) == ([0], [1])
    train(transition(**BATCH))
    mean, variance = np.mean(BATCH["s"]), np.var(BATCH["s"])
    np.testing.assert_allclose(first.mean, [0.01 * mean], rtol=1e-5)
    np.testing.assert_allclose(first.variance, [1 + 0.01 * (variance - 1)], rtol=1e-5)


def test_the_warm_up_of_its_actor_is_counted_in_updates_of_the_actor(monkeypatch):
    actor = NormalizingActorNetwork(OBSERVATION, action_spec(), (4,), RenormalizedLayers)
    agent, counts = crossq_agent(actor, policy_delay=2), []
    of_batch = actor.of_batch

    def recorded(observation, num_updates):
        counts.append(int(num_updates))
        return of_batch(observation, num_updates)

    monkeypatch.setattr(actor, "of_batch", recorded)
    for _ in range(6):
        agent.train(transition(**BATCH))
    assert counts == [0, 1, 2]
