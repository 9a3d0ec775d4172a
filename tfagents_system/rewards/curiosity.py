"""Curiosity: pays for what the agent cannot predict.

Source: Pathak et al. 2017, Curiosity-driven Exploration by Self-supervised Prediction,
arXiv:1705.05363, equations 2 to 7, with the layers and factors of Unity's ML-Agents.
"""

import tensorflow as tf

from tfagents_system.agents.losses import valid_mean
from tfagents_system.core.settings.reward_signals import CuriositySettings
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.networks.heads import ActionHead
from tfagents_system.rewards.encoder import SignalEncoder, applied, dense
from tfagents_system.rewards.learned_signal import LearnedSignal

UNITS = 256  # of the hidden layers of both models
FORWARD_SHARE = 0.2  # of the loss
LOSS_FACTOR = 10.0
LARGEST_REWARD = 1.0  # including the strength


class Curiosity(LearnedSignal):
    """Pays 1/2 |f(phi(s), a) - phi(s')|^2, at most 1 / strength.

    f predicts the features phi of the next observation. They are learned so that a second network
    can infer the action between two observations, so they omit what actions do not change.
    """

    def __init__(self, settings: CuriositySettings, encoder: SignalEncoder, head: ActionHead):
        """Makes the networks.

        Args:
          settings: The stream's settings.
          encoder: phi, which is trained, too.
          head: Head for the environment's action.
        """
        super().__init__("curiosity", settings.strength)
        self.encoder = encoder
        self._head = head
        size = encoder.num_features
        self.forward_model = [dense(UNITS, "forward_0"), dense(size, "forward_1", None)]
        self.inverse_model = [
            dense(UNITS, "inverse_0"),
            dense(head.vector_size, "inverse_1", None),
        ]
        applied(self.forward_model, tf.zeros([1, size + head.vector_size]))
        applied(self.inverse_model, tf.zeros([1, 2 * size]))
        self._start(settings.learning_rate, self.trainable_variables)

    def judged(self, transition: Transition) -> tf.Tensor:
        """Returns the errors of the forward model, at most 1 / strength."""
        features, next_features = self._features(transition)
        errors = self._forward_errors(features, next_features, transition)
        return tf.minimum(errors, LARGEST_REWARD / self.strength)

    def losses(self, transition: Transition) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns 10 (0.2 forward_loss + 0.8 inverse_loss), and both."""
        valid = tf.cast(is_valid(transition), tf.float32)
        features, next_features = self._features(transition)
        errors = self._forward_errors(features, next_features, transition)
        predicted = applied(self.inverse_model, tf.concat([features, next_features], axis=-1))
        of_actions = self._head.prediction_error(predicted, transition.action)
        forward, inverse = valid_mean(errors, valid), valid_mean(of_actions, valid)
        loss = LOSS_FACTOR * (FORWARD_SHARE * forward + (1 - FORWARD_SHARE) * inverse)
        return loss, {"forward_loss": forward, "inverse_loss": inverse}

    def _features(self, transition: Transition) -> tuple[tf.Tensor, tf.Tensor]:
        return self.encoder(transition.observation), self.encoder(transition.next_observation)

    def _forward_errors(
        self, features: tf.Tensor, next_features: tf.Tensor, transition: Transition
    ) -> tf.Tensor:
        inputs = tf.concat([features, self._head.as_vector(transition.action)], axis=-1)
        predicted = applied(self.forward_model, inputs)
        return 0.5 * tf.reduce_sum(tf.square(predicted - next_features), axis=-1)
