"""The built-in actors: a multilayer perceptron, and one that reads a summary of observations."""

import numpy as np
import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.networks import encoders
from tfagents_system.networks.distributions import SquashedGaussian

LOG_STD_RANGE = (-20.0, 2.0)  # as in the authors' code of arXiv:1812.05905


class GaussianHead(tf.keras.layers.Layer):
    """Maps features [B, n] to a SquashedGaussian over the bounds of `action_spec`."""

    def __init__(self, action_spec):
        """Makes no variables yet."""
        super().__init__(name="gaussian_head")
        self._num_actions = int(np.prod(action_spec.shape))
        self.center, self.magnitude = encoders.action_center_and_magnitude(action_spec)
        self.projection = tf.keras.layers.Dense(2 * self._num_actions, name="mean_and_log_std")

    def call(self, features):
        """Returns the distribution."""
        return self.distribution(self.projection(features))

    def distribution(self, projected):
        """Returns that of the projected features [B, 2 A]."""
        loc, log_std = tf.split(projected, 2, axis=-1)
        return SquashedGaussian(
            loc, tf.clip_by_value(log_std, *LOG_STD_RANGE), self.center, self.magnitude
        )


class _DeterministicHead(tf.keras.layers.Layer):
    """Maps features [B, n] to center + magnitude * tanh(mean), within the bounds [B, A]."""

    def __init__(self, action_spec):
        super().__init__(name="deterministic_head")
        self.center, self.magnitude = encoders.action_center_and_magnitude(action_spec)
        self.projection = tf.keras.layers.Dense(int(np.prod(action_spec.shape)), name="mean")

    def call(self, features):
        return self.center + self.magnitude * tf.tanh(self.projection(features))


class MlpActorNetwork(network.Network):
    """Observation -> Dense + ReLU layers -> SquashedGaussian, or action; no state."""

    def __init__(
        self,
        observation_spec,
        action_spec,
        fc_layer_params=(256, 256),
        preprocessing_combiner=None,
        deterministic=False,
        name="MlpActorNetwork",
    ):
        """Builds the layers; the variables appear with `create_variables`.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          action_spec: One float32 BoundedTensorSpec of rank 1.
          fc_layer_params: Units of each hidden layer.
          preprocessing_combiner: Keras layer that joins the leaves of a nested observation.
          deterministic: Whether the network gives an action in place of a distribution.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(observation_spec, preprocessing_combiner)
        self.hidden_layers = encoders.dense_layers(fc_layer_params)
        self.head = (_DeterministicHead if deterministic else GaussianHead)(action_spec)

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns (SquashedGaussian or action, the same state) for [B, ...] or [B, T, ...]."""
        features = self.encoder(observation)
        for layer in self.hidden_layers:
            features = layer(features)
        return self.head(features), network_state


class SummarizingActorNetwork(network.Network):
    """Observation -> summarizer -> actor of its features; the state is the summarizer's."""

    def __init__(self, summarizer, actor, name="SummarizingActorNetwork"):
        """Takes over both; `actor` may be trained alone, and `summarizer` with the critics.

        Args:
          summarizer: Such as RecurrentSummarizer.
          actor: MlpActorNetwork for the summarizer's features.
          name: Name of the network.
        """
        super().__init__(summarizer.input_tensor_spec, summarizer.state_spec, name=name)
        self.summarizer = summarizer
        self.actor = actor

    def copy(self, **kwargs):
        """Returns one with variables of its own."""
        parts = {"summarizer": self.summarizer.copy(), "actor": self.actor.copy()}
        return super().copy(**parts | kwargs)

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns (SquashedGaussian or action, state after the last step); see the summarizer."""
        features, network_state = self.summarizer(observation, step_type, network_state)
        return self.actor(features)[0], network_state


def acting_network(actor, summarizer=None) -> network.Network:
    """Returns `actor`, or the network that acts from observations if it takes features."""
    return actor if summarizer is None else SummarizingActorNetwork(summarizer, actor)
