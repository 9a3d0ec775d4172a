"""The entropy temperature of stochastic policies."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.agents.losses import valid_mean
from tfagents_system.agents.optimizers import LearningRate, make_adam


class Temperature(tf.Module):
    """The temperature alpha, either learned so that the policy's entropy meets a target, or fixed.

    Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
    """

    def __init__(
        self,
        initial_log_alpha: float,
        target_entropy: float | NDArray[np.float32],
        learning_rate: LearningRate | None = 3e-4,
        adam_beta_1: float = 0.9,
        by_alpha: bool = False,
    ):
        """Creates log alpha and its optimizer.

        Args:
          initial_log_alpha: Initial log of the temperature.
          target_entropy: In nats, of actions scaled to [-1, 1]; [P] makes a temperature for each
            part of an action.
          learning_rate: Adam learning rate; None keeps alpha fixed.
          adam_beta_1: Decay of Adam's first moment.
          by_alpha: Whether the loss is alpha times the excess, as in equation 18.
        """
        super().__init__()
        initial = np.full(np.shape(target_entropy), initial_log_alpha, np.float32)
        self.log_alpha = tf.Variable(initial, name="log_alpha")
        self.target_entropy = target_entropy
        self._by_alpha = by_alpha
        self._is_learned = learning_rate is not None
        self.optimizer = make_adam(
            3e-4 if learning_rate is None else learning_rate, [self.log_alpha], adam_beta_1
        )

    @property
    def alpha(self) -> tf.Tensor:
        """The temperature, [] or [P], > 0."""
        return tf.exp(self.log_alpha)

    def loss(
        self, log_prob: tf.Tensor, valid: tf.Tensor, share: tf.Tensor | float = 1.0
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the mean of -log_alpha (log pi(a|s) + target entropy), and its gradient.

        Over several parts, the loss is summed.

        Equation 18 has alpha in place of log_alpha: the sign and the optimum are the same, but here
        the step size does not shrink with alpha (as in the authors' code). In either case the
        gradient is w.r.t. log_alpha.

        Args:
          log_prob: [B] or [B, T], log-probabilities of the policy's actions; or [..., P].
          valid: [B] or [B, T]; 0 for padding.
          share: Factor of the target entropy, shaped like `log_prob`: the share of the largest
            entropy that masks leave. Without it, a target that few allowed actions cannot reach
            would raise alpha for ever.
        """
        excess = log_prob + share * self.target_entropy
        if self.log_alpha.shape.rank:
            parts = tf.unstack(excess, axis=-1)
            excess = tf.stack([valid_mean(part, valid) for part in parts])
        else:
            excess = valid_mean(excess, valid)
        if self._by_alpha:
            losses = -self.alpha * excess
            return tf.reduce_sum(losses), [losses]
        return tf.reduce_sum(-self.log_alpha * excess), [-excess]

    def apply(self, gradients: list[tf.Tensor]) -> None:
        """Adjusts alpha, unless it is fixed."""
        if self._is_learned:
            self.optimizer.apply_gradients(zip(gradients, [self.log_alpha], strict=True))
