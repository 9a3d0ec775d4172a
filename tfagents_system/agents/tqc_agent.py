"""Truncated Quantile Critics: SAC whose critics learn the distribution of returns.

Source: Kuznetsov et al. 2020, arXiv:2005.04269; see tqc_losses.py.
"""

import tensorflow as tf

from tfagents_system.agents import tqc_losses
from tfagents_system.agents.experience import initial_state
from tfagents_system.agents.sac_agent import CriticsBranch, SacAgent


class TqcAgent(SacAgent):
    """SAC with critics of [B, M] quantiles, of whose mixture targets leave the largest out."""

    def __init__(self, *args, num_dropped_quantiles: int, **kwargs):
        """See SacAgent.

        Args:
          *args: Go to SacAgent; the critic network gives quantiles [B, M] or [B, T, M].
          num_dropped_quantiles: How many of each critic are left out of targets.
          **kwargs: Go to SacAgent.
        """
        super().__init__(*args, **kwargs)
        self._num_dropped = num_dropped_quantiles * len(self.critics)

    def _judged(self, values):
        """The mean over all quantiles of all critics; equation 13."""
        return [tf.add_n([tf.reduce_mean(v, axis=-1) for v in values]) / len(values)]

    def td_target(self, experience, alpha):
        """Returns the targets of all quantiles, [B, K] or [B, T, K]."""
        next_steps = self._next_steps(experience)
        actions, log_prob = self._sample(next_steps, initial_state(experience))
        with self._exact_values():
            quantiles = self._values(self.target_critics, next_steps, actions)
        log_prob, *quantiles = self._of_next_steps([log_prob, *quantiles])
        step = experience.next_time_step
        return tqc_losses.soft_td_targets(
            step.reward,
            step.discount,
            self.gamma,
            tqc_losses.truncated(quantiles, self._num_dropped),
            log_prob,
            alpha,
        )

    def _critics_branch(self, experience, alpha, valid) -> CriticsBranch:
        targets = tf.stop_gradient(self.td_target(experience, alpha))
        loss, quantiles, gradients = self._critic_branch(
            tqc_losses.critic_loss, experience, targets, valid
        )
        q_values, td_target = tf.reduce_mean(quantiles[0], -1), tf.reduce_mean(targets, -1)
        return CriticsBranch(loss, q_values, td_target, gradients)
