"""The losses of Soft Actor-Critic.

Sources: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905;
Haarnoja et al. 2018, Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with
a Stochastic Actor, arXiv:1801.01290, which has a state-value network; for ensembles of critics,
Ball et al. 2023, Efficient Online Reinforcement Learning with Offline Data, arXiv:2302.02948.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

from tfagents_system.agents.batch import Batch
from tfagents_system.agents.losses import ActorLoss, CriticLoss, sum_of_parts, valid_mean
from tfagents_system.agents.networks import Networks, act, act_of, values, values_of_drawn
from tfagents_system.core.nests import Nest
from tfagents_system.networks.matmul import exact_values

Gamma: TypeAlias = float | tf.Tensor  # per env step; for reward streams [S, 1] or [S, 1, 1]


def smallest(q_values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the smallest of the critics' values, each [B] or [B, T]."""
    return functools.reduce(tf.minimum, q_values)


def mean(q_values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the mean of the critics' values, each [B] or [B, T]."""
    return tf.add_n(q_values) / len(q_values)


def actor_loss(
    networks: Networks,
    batch: Batch,
    alpha: tf.Tensor,
    judged_by: Callable[[Sequence[tf.Tensor]], tf.Tensor] = smallest,
) -> ActorLoss:
    """Returns the mean of alpha log pi(a|s) - Q(s, a), a from the policy; arXiv:1812.05905, eq. 9.

    Args:
      networks: The agent's networks.
      batch: A minibatch.
      alpha: [] or [P] entropy temperature, >= 0.
      judged_by: Maps the critics' values to what the actor maximizes, [B] or [B, T].
    """
    distribution = act_of(networks, batch.steps, batch.state)

    def judge(actions: Nest) -> tf.Tensor:
        return judged_by(values(networks.critics, batch.steps, actions))

    q_value, log_prob = networks.head.expectation(distribution, judge)
    loss = valid_mean(sum_of_parts(alpha * log_prob, alpha) - q_value, batch.valid)
    return ActorLoss(loss, log_prob, soft_value(q_value, tf.stop_gradient(log_prob), alpha))


def critic_loss(
    networks: Networks,
    batch: Batch,
    alpha: tf.Tensor,
    gamma: Gamma,
    num_drawn: int | None = None,
) -> CriticLoss:
    """Returns the sum over the critics of the mean of 1/2 (Q - y)^2; arXiv:1812.05905, eq. 5.

    For `num_drawn`, see `td_target`.
    """
    target = tf.stop_gradient(td_target(networks, batch, alpha, gamma, num_drawn))
    with exact_values():
        outputs = values(networks.critics, batch.steps, batch.action)
    q_values = [networks.head.taken(output, batch.action) for output in outputs]
    return CriticLoss(half_squared_errors(q_values, target, batch.valid), q_values[0], target)


def td_target(
    networks: Networks,
    batch: Batch,
    alpha: tf.Tensor,
    gamma: Gamma,
    num_drawn: int | None = None,
) -> tf.Tensor:
    """Returns y = r + gamma d V(s') of the target networks: [B] or [B, T]; for streams [S, ...].

    V is the state-value network's, or the smallest soft value of an action of the policy: over all
    target critics or, in an ensemble, over `num_drawn`, drawn once for the whole minibatch.
    """
    if networks.target_state_value is not None:
        with exact_values():
            next_value = act(networks.target_state_value, batch.next_steps)
        return bootstrapped_return(batch.reward, batch.discount, gamma, next_value)
    distribution = act_of(networks, batch.next_steps, batch.state)
    critics = networks.target_critics
    drawn = num_drawn and tf.random.shuffle(tf.range(len(critics)))[:num_drawn]

    def judge(actions: Nest) -> tf.Tensor:
        with exact_values():
            if drawn is None:
                return smallest(values(critics, batch.next_steps, actions))
            return smallest(values_of_drawn(critics, drawn, batch.next_steps, actions))

    next_value = soft_value(*networks.head.expectation(distribution, judge), alpha)
    if batch.has_first_step:
        next_value = next_value[..., 1:]
    return bootstrapped_return(batch.reward, batch.discount, gamma, next_value)


def state_value_loss(networks: Networks, batch: Batch, target: tf.Tensor) -> tf.Tensor:
    """Returns the mean of 1/2 (V(s) - target)^2; arXiv:1801.01290, equation 5."""
    with exact_values():
        value = act(networks.state_value, batch.steps)
    return half_squared_errors([value], target, batch.valid)


def bootstrapped_return(
    reward: tf.Tensor, discount: tf.Tensor, gamma: Gamma, next_value: tf.Tensor
) -> tf.Tensor:
    """Returns y = r + gamma d V'(s'); arXiv:1801.01290, equation 8. All [B] or [B, T] but gamma."""
    return reward + gamma * discount * next_value


def soft_value(q_value: tf.Tensor, log_prob: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
    """Returns Q(s, a) - alpha log pi(a|s), a from the policy; arXiv:1801.01290, eq. 3, one action.

    Args:
      q_value: [B] or [B, T].
      log_prob: log pi(a|s), of the same shape, or [..., P] for the parts of an action.
      alpha: [] or [P] entropy temperature, >= 0.
    """
    return q_value - sum_of_parts(alpha * log_prob, alpha)


def soft_td_target(
    reward: tf.Tensor,
    discount: tf.Tensor,
    gamma: float,
    next_q_value: tf.Tensor,
    next_log_prob: tf.Tensor,
    alpha: tf.Tensor,
) -> tf.Tensor:
    """Returns y = r + gamma d (min_i Q'_i(s', a') - alpha log pi(a'|s')).

    Source: arXiv:1812.05905, equation 6, with the minimum of two target critics.

    Args:
      reward: [B] or [B, T], like all others.
      discount: Environment's discount; 0 only after a true termination.
      gamma: Discount factor per env step, in [0, 1].
      next_q_value: The target critics' smallest value at (s', a'), a' from the policy.
      next_log_prob: log pi(a'|s'), or [..., P] for the parts of an action.
      alpha: [] or [P] entropy temperature, >= 0.
    """
    next_value = soft_value(next_q_value, next_log_prob, alpha)
    return bootstrapped_return(reward, discount, gamma, next_value)


def half_squared_errors(
    all_values: Sequence[tf.Tensor], target: tf.Tensor, valid: tf.Tensor
) -> tf.Tensor:
    """Returns the sum over `all_values`, [B] or [B, T] each, of the mean of 1/2 (v - target)^2."""
    return tf.add_n([0.5 * valid_mean(tf.square(v - target), valid) for v in all_values])
