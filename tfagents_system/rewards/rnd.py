"""Random network distillation: pays for observations that are new.

Source: Burda et al. 2018, Exploration by Random Network Distillation, arXiv:1810.12894, section
2.2, with the layers of Unity's ML-Agents.
"""

import tensorflow as tf

from tfagents_system.agents.losses import valid_mean
from tfagents_system.core.settings.reward_signals import RndSettings
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.rewards.encoder import SignalEncoder
from tfagents_system.rewards.learned_signal import LearnedSignal


class Rnd(LearnedSignal):
    """Pays |p(s') - t(s')|^2, where p learns to be like a random network t that never changes."""

    def __init__(self, settings: RndSettings, predictor: SignalEncoder, target: SignalEncoder):
        """Takes both networks, which differ only in their random weights."""
        super().__init__("rnd", settings.strength)
        self.predictor = predictor
        self.target = target
        self._start(settings.learning_rate, predictor.trainable_variables)

    def judged(self, transition: Transition) -> tf.Tensor:
        """Returns the squared errors for the observations after each step."""
        observation = transition.next_observation
        return tf.reduce_sum(
            tf.math.squared_difference(self.predictor(observation), self.target(observation)),
            axis=-1,
        )

    def losses(self, transition: Transition) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the mean of the squared errors."""
        valid = tf.cast(is_valid(transition), tf.float32)
        loss = valid_mean(self.judged(transition), valid)
        return loss, {"loss": loss}
