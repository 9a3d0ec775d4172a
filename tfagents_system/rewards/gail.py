"""Imitation: pays for what a discriminator takes for an expert's behavior.

Sources: Ho and Ermon 2016, Generative Adversarial Imitation Learning, arXiv:1606.03476, equation
14; Peng et al. 2019, Variational Discriminator Bottleneck, arXiv:1810.00821, equations 9 to 15 and
section 4; with the layers and factors of Unity's ML-Agents.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfagents_system.agents.losses import valid_mean
from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.reward_signals import GailSettings
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.networks.heads import ActionHead
from tfagents_system.rewards.encoder import SignalEncoder, applied, dense
from tfagents_system.rewards.learned_signal import LearnedSignal

PENALTY_FACTOR = 10.0
EPSILON = 1e-7
CODE_SIZE = 128  # numbers of the bottleneck
MOST_INFORMATION = 0.5  # nats, that the bottleneck should let through
BETA_STEP = 5e-4
SMALLEST_BETA = 1e-7


class Discrimination(NamedTuple):
    """The discriminator's outputs for inputs [N, ...]."""

    estimate: tf.Tensor  # [N], the probability that the expert did it
    code: tf.Tensor  # [N, CODE_SIZE], the mean of the bottleneck; () without one


class Gail(LearnedSignal):
    """Pays -log(1 - D(s)), where D learns to tell the expert's observations from the policy's.

    With `use_actions`, D also sees the action, and whether the episode terminated. With `use_vail`,
    noise limits what D may learn of its inputs, which keeps it from being sure too early.
    """

    def __init__(
        self,
        settings: GailSettings,
        encoder: SignalEncoder,
        head: ActionHead,
        num_own: int,
    ):
        """Makes the networks; `imitate` must follow before it is trained.

        Args:
          settings: The stream's settings.
          encoder: Encoder of observations, which is trained, too.
          head: Head for the environment's action.
          num_own: Samples at the beginning of each minibatch that the policy has collected; the
            rest come from the expert, too.
        """
        super().__init__("gail", settings.strength)
        self.encoder = encoder
        self._head, self._num_own = head, num_own
        self._use_actions, self._use_vail = settings.use_actions, settings.use_vail
        units = settings.encoding_size
        self.hidden_layers = [dense(units, "gail_0"), dense(units, "gail_1")]
        size = encoder.num_features + (head.vector_size + 1 if settings.use_actions else 0)
        features = applied(self.hidden_layers, tf.zeros([1, size]))
        trained = [*encoder.trainable_variables]
        for layer in self.hidden_layers:
            trained += layer.trainable_variables
        if settings.use_vail:
            small = tf.keras.initializers.VarianceScaling(0.01, "fan_in", "truncated_normal")
            self.code_layer = tf.keras.layers.Dense(
                CODE_SIZE, kernel_initializer=small, name="gail_code"
            )
            features = self.code_layer(features)
            self.deviation = tf.Variable(tf.ones([CODE_SIZE]), name="gail_deviation")
            self.beta = tf.Variable(1.0, trainable=False, name="gail_beta")
            trained += [*self.code_layer.trainable_variables, self.deviation]
        self.last_layer = dense(1, "gail_estimate", "sigmoid")
        self.last_layer(features)
        trained += self.last_layer.trainable_variables
        self._start(settings.learning_rate, trained)

    def imitate(self, draw: Callable[[tf.Tensor], Transition]) -> None:
        """Sets the expert: `draw(n)` returns n of its transitions or sequences, at random."""
        self._draw = draw

    def judged(self, transition: Transition) -> tf.Tensor:
        """Returns -log(1 - D), >= 0."""
        estimate = self._discriminate(self._inputs(transition)).estimate
        return -tf.math.log(1.0 - estimate * (1.0 - EPSILON))

    def losses(self, transition: Transition) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the loss, with the penalties of gradient and bottleneck, and its parts."""
        own = tf.nest.map_structure(lambda leaf: leaf[: self._num_own], transition)
        policys, valid = self._rows(own)
        experts, expert_valid = self._rows(self._draw(tf.shape(own.step_type)[0]))
        of_policy = self._discriminate(policys, is_noisy=True)
        of_expert = self._discriminate(experts, is_noisy=True)
        cross_entropy = -valid_mean(tf.math.log(of_expert.estimate + EPSILON), expert_valid)
        cross_entropy -= valid_mean(tf.math.log(1.0 - of_policy.estimate + EPSILON), valid)
        penalty = self._gradient_penalty(experts, policys, expert_valid * valid)
        loss = cross_entropy + PENALTY_FACTOR * penalty
        metrics = {
            "loss": cross_entropy,
            "gradient_penalty": penalty,
            "expert_estimate": valid_mean(of_expert.estimate, expert_valid),
            "policy_estimate": valid_mean(of_policy.estimate, valid),
        }
        if self._use_vail:
            information = self._information(of_expert.code, expert_valid)
            information += self._information(of_policy.code, valid)
            loss += self.beta * (information - MOST_INFORMATION)
            metrics |= {"information": information, "beta": tf.convert_to_tensor(self.beta)}
        return loss, metrics

    def train(self, transition: Transition) -> dict[str, tf.Tensor]:
        """Does a train step, then adjusts beta; returns the losses before it, by name."""
        metrics = super().train(transition)
        if self._use_vail:
            excess = metrics["information"] - MOST_INFORMATION
            self.beta.assign(tf.maximum(self.beta + BETA_STEP * excess, SMALLEST_BETA))
        return metrics

    def _inputs(self, transition: Transition) -> tuple[Nest, tf.Tensor]:
        """Returns (observation, action and termination [..., m]), all in float32."""
        observation = tf.nest.map_structure(_as_floats, transition.observation)
        vector = self._head.as_vector(transition.action)
        if not self._use_actions:
            return observation, vector[..., :0]
        has_ended = 1.0 - transition.discount[..., tf.newaxis]
        return observation, tf.concat([vector, has_ended], axis=-1)

    def _rows(self, transition: Transition) -> tuple[tuple[Nest, tf.Tensor], tf.Tensor]:
        """Returns the inputs [N, ...] of all transitions, also of sequences, and 1 if valid [N]."""
        inputs, valid = self._inputs(transition), tf.cast(is_valid(transition), tf.float32)
        if valid.shape.rank > 1:
            inputs = tf.nest.map_structure(
                lambda leaf: tf.reshape(leaf, tf.concat([[-1], tf.shape(leaf)[2:]], axis=0)), inputs
            )
        return inputs, tf.reshape(valid, [-1])

    def _discriminate(
        self, inputs: tuple[Nest, tf.Tensor], is_noisy: bool = False
    ) -> Discrimination:
        observation, others = inputs
        features = tf.concat([self.encoder(observation), others], axis=-1)
        features = applied(self.hidden_layers, features)
        code: tf.Tensor = ()
        if self._use_vail:
            features = code = self.code_layer(features)
            if is_noisy:
                features += self.deviation * tf.random.normal(tf.shape(code))
        return Discrimination(tf.squeeze(self.last_layer(features), axis=-1), code)

    def _gradient_penalty(
        self,
        experts: tuple[Nest, tf.Tensor],
        policys: tuple[Nest, tf.Tensor],
        valid: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the mean of (|dD/dx| - 1)^2 at points between both, where `valid` [N] is 1.

        The norm is over all inputs together.
        """

        def between(expert: tf.Tensor, policy: tf.Tensor) -> tf.Tensor:
            share = tf.random.uniform(tf.shape(expert))
            return share * expert + (1.0 - share) * policy

        inputs = tf.nest.map_structure(between, experts, policys)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            estimate = self._discriminate(inputs, is_noisy=True).estimate
        gradients = tape.gradient(estimate, inputs, unconnected_gradients="zero")
        squares = [
            tf.reduce_sum(tf.square(tf.reshape(part, [tf.shape(part)[0], -1])), axis=-1)
            for part in tf.nest.flatten(gradients)
            if part.shape[-1]
        ]
        norm = tf.sqrt(tf.add_n(squares) + EPSILON)
        return valid_mean(tf.square(norm - 1.0), valid)

    def _information(self, means: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Returns the bottleneck's mean information in nats, from its means [N, n].

        1/2 E[sum_j (mu_j^2 + v_j - 1 - log v_j)], v the variance: the divergence from a standard
        normal distribution.
        """
        variance = tf.square(self.deviation)
        terms = tf.square(means) + variance - 1.0 - tf.math.log(variance + EPSILON)
        return valid_mean(0.5 * tf.reduce_sum(terms, axis=-1), valid)


def _as_floats(leaf: tf.Tensor) -> tf.Tensor:
    """Returns a part of an observation as floats, which can be interpolated."""
    numbers = tf.cast(leaf, tf.float32)
    return numbers / 255 if leaf.dtype == tf.uint8 else numbers  # as encoders do with images
