"""The built-in critics: Q(observation, action), optionally after a summarizer, and V."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.reward_signals import EXTRINSIC
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.goal_conditioning import GoalReader
from tfagents_system.networks.hidden_layers import dense_layers, through
from tfagents_system.networks.observation_encoders import observation_encoder

STREAM_LAYER = "q_value_of_"  # prefix of the name of a stream's last layer


class MlpCriticNetwork(network.Network):
    """(observation, action) -> joint Dense + ReLU layers -> Q; no state.

    With several reward streams, each has a last layer of its own, and Q is a dict.
    """

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        joint_fc_layer_params: Sequence[int] = (256, 256),
        preprocessing_combiner: Callable[..., Any] | None = None,
        num_quantiles: int | None = None,
        layer_norm: bool = False,
        dropout_rate: float = 0.0,
        streams: Sequence[str] = (),
        image_encoder: str | None = None,
        name: str = "MlpCriticNetwork",
    ):
        """Builds the layers; `create_variables` creates the variables.

        Args:
          input_tensor_spec: (observation_spec, action_spec) without batch axis.
          joint_fc_layer_params: Units of each hidden layer.
          preprocessing_combiner: See `observation_encoder`.
          num_quantiles: Number of quantiles of the return; None: only Q.
          layer_norm: Whether each hidden layer is Dense + dropout + layer normalization + ReLU.
          dropout_rate: Share of units that are dropped, drawn again in each call.
          streams: Names of the reward streams, "extrinsic" for the environment's; empty: it alone.
          image_encoder: See `observation_encoder`.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(
            input_tensor_spec[0], preprocessing_combiner, image_encoder
        )
        self.head = action_head(input_tensor_spec[1])
        self.goals = GoalReader(input_tensor_spec[0])
        self.hidden_layers = dense_layers(
            joint_fc_layer_params, layer_norm, dropout_rate, self.goals.num_inputs > 0
        )
        self._has_one_output = num_quantiles is None and self.head.num_values == 1
        num_outputs = num_quantiles or self.head.num_values
        # The same layer with and without other streams, so that its weights can be reused.
        self.value_layer = tf.keras.layers.Dense(num_outputs, name="q_value")
        self.stream_layers = {
            stream: tf.keras.layers.Dense(num_outputs, name=f"{STREAM_LAYER}{stream}")
            for stream in streams
            if stream != EXTRINSIC
        }
        self._streams = tuple(streams)

    def call(
        self,
        inputs: tuple[Nest, tf.Tensor],
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[tf.Tensor, Nest]:
        """Returns (Q [B] or [B, T], `network_state` unchanged) for inputs (observation, action).

        With `num_quantiles`, Q is [B, num_quantiles] or [B, T, num_quantiles]; for discrete
        actions it is [B, num_values] or [B, T, num_values], of all actions. With `streams`, it is
        a dict of such tensors.
        """
        observation, action = inputs
        features = tf.concat([self.encoder(observation), self.head.critic_inputs(action)], axis=-1)
        features = through(self.hidden_layers, features, self.goals(observation))
        if not self._streams:
            return self._q_values(self.value_layer, features), network_state
        layers = {EXTRINSIC: self.value_layer, **self.stream_layers}
        values = {name: self._q_values(layers[name], features) for name in self._streams}
        return values, network_state

    def _q_values(self, layer: tf.keras.layers.Layer, features: tf.Tensor) -> tf.Tensor:
        values = layer(features)
        return tf.squeeze(values, axis=-1) if self._has_one_output else values


class MlpValueNetwork(network.Network):
    """Observation -> Dense + ReLU layers -> V; no state."""

    def __init__(
        self,
        observation_spec: Nest,
        fc_layer_params: Sequence[int] = (256, 256),
        preprocessing_combiner: Callable[..., Any] | None = None,
        image_encoder: str | None = None,
        name: str = "MlpValueNetwork",
    ):
        """See `MlpCriticNetwork`."""
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(observation_spec, preprocessing_combiner, image_encoder)
        self.goals = GoalReader(observation_spec)
        is_conditioned = self.goals.num_inputs > 0
        self.hidden_layers = dense_layers(fc_layer_params, is_conditioned=is_conditioned)
        self.value_layer = tf.keras.layers.Dense(1, name="state_value")

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[tf.Tensor, Nest]:
        """Returns (V [B], `network_state` unchanged)."""
        goals = self.goals(observation)
        features = through(self.hidden_layers, self.encoder(observation), goals)
        return tf.squeeze(self.value_layer(features), axis=-1), network_state


class SummarizingCriticNetwork(network.Network):
    """observation -> summarizer; (its features, action) -> critic -> Q.

    The summarizer reads only observations, so the state after a step does not depend on the
    evaluated action.
    """

    def __init__(
        self,
        summarizer: network.Network,
        critic: network.Network,
        name: str = "SummarizingCriticNetwork",
    ):
        """Takes both parts.

        Args:
          summarizer: For example RecurrentSummarizer.
          critic: MlpCriticNetwork for the summarizer's features and an action.
          name: Name of the network.
        """
        action_spec = critic.input_tensor_spec[1]
        super().__init__(
            (summarizer.input_tensor_spec, action_spec), summarizer.state_spec, name=name
        )
        self.summarizer = summarizer
        self.critic = critic

    def copy(self, **kwargs: Any) -> "SummarizingCriticNetwork":
        """Returns a copy with its own variables."""
        parts = {"summarizer": self.summarizer.copy(), "critic": self.critic.copy()}
        return super().copy(**parts | kwargs)

    def call(
        self,
        inputs: tuple[Nest, tf.Tensor],
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[tf.Tensor, Nest]:
        """Returns (Q [B] or [B, T], state after the last step); see RecurrentSummarizer.call."""
        observation, action = inputs
        features, network_state = self.summarizer(observation, step_type, network_state)
        return self.critic((features, action))[0], network_state
