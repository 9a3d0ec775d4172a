"""What depends on the kind of an action space: how actions are drawn, and what critics get."""

import numpy as np
import tensorflow as tf

from tfagents_system.networks.distributions import SquashedGaussian
from tfagents_system.networks.encoders import ActionScaling, action_center_and_magnitude


class BoxHead:
    """One bounded float32 vector.

    Log-probabilities are those of actions scaled to [-1, 1], so that neither the temperature nor
    the value of staying alive depends on the unit of the action.
    """

    def __init__(self, action_spec):
        """`action_spec` is one BoundedTensorSpec of rank 1."""
        self.action_spec = action_spec
        self.num_actions = int(np.prod(action_spec.shape))
        self.default_target_entropy = -self.num_actions  # arXiv:1812.05905, table 1
        center, self.magnitude = action_center_and_magnitude(action_spec)
        self.low, self.high = center - self.magnitude, center + self.magnitude
        self._log_volume = ActionScaling(action_spec).log_volume

    def sample(self, distribution) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns actions [..., A] and their log-probabilities [...]."""
        if isinstance(distribution, SquashedGaussian):
            actions, log_prob = distribution.experimental_sample_and_log_prob()
        else:  # TF-Agents' own distributions have no joint method
            actions = distribution.sample()
            log_prob = distribution.log_prob(actions)
        return actions, log_prob + self._log_volume
