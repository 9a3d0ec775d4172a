"""An actor and a critic with batch normalization."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.core.nests import Nest
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.batch_norm import Moments, NormalizingLayers
from tfagents_system.networks.observation_encoders import observation_encoder

# Units of the hidden layers, output layer -> all layers; such as BatchNormLayers.
Layers = Callable[[Sequence[int], tf.keras.layers.Dense], NormalizingLayers]


class NormalizingCriticNetwork(network.Network):
    """(observation, action) -> normalizing layers -> Q; no state."""

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        fc_layer_params: Sequence[int],
        layers: Layers,
        preprocessing_combiner: tf.keras.layers.Layer | None = None,
        support: tuple[float, ...] = (),
        image_encoder: str | None = None,
        name: str = "NormalizingCriticNetwork",
    ):
        """Builds the layers; `create_variables` creates the variables.

        Args:
          input_tensor_spec: (observation_spec, action_spec) without batch axis.
          fc_layer_params: Units of each hidden layer.
          layers: For example BatchNormLayers.
          preprocessing_combiner: See `observation_encoder`.
          support: Values of the return for which the outputs are logits; empty: only Q, for
            discrete actions of each, [B, num_values].
          image_encoder: See `observation_encoder`.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(
            input_tensor_spec[0], preprocessing_combiner, image_encoder
        )
        self.head = action_head(input_tensor_spec[1])
        self.support = support
        self._has_one_output = not support and self.head.num_values == 1
        num_outputs = len(support) or self.head.num_values
        value_layer = tf.keras.layers.Dense(num_outputs, name="q_value")
        self.layers_of_value = layers(fc_layer_params, value_layer)

    @property
    def kernels(self) -> list[tf.Variable]:
        """The kernels of all dense layers, [inputs, units] each."""
        return self.layers_of_value.kernels

    def call(
        self,
        inputs: tuple[Nest, tf.Tensor],
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[tf.Tensor, Nest]:
        """Returns (Q [B], `network_state` unchanged), by the running moments."""
        outputs = self.layers_of_value(self._features(inputs))
        if self.support:
            return expectation(tf.nn.softmax(outputs), self.support), network_state
        return self._squeezed(outputs), network_state

    def of_batch(
        self, inputs: tuple[Nest, tf.Tensor], *arguments: Any
    ) -> tuple[tf.Tensor, list[Moments]]:
        """Returns Q [B], or logits [B, bins], by the batch's moments, and each layer's moments.

        `arguments` are passed to the layers' `of_batch`.
        """
        outputs, moments = self.layers_of_value.of_batch(self._features(inputs), *arguments)
        return self._squeezed(outputs), moments

    def update_moments(self, moments: list[Moments]) -> None:
        """Moves the running moments towards those of a batch."""
        self.layers_of_value.update(moments)

    def _squeezed(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(outputs, axis=-1) if self._has_one_output else outputs

    def _features(self, inputs: tuple[Nest, tf.Tensor]) -> tf.Tensor:
        observation, action = inputs
        return tf.concat([self.encoder(observation), self.head.critic_inputs(action)], axis=-1)


class NormalizingActorNetwork(network.Network):
    """Observation -> normalizing layers -> distribution over actions; no state."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        fc_layer_params: Sequence[int],
        layers: Layers,
        preprocessing_combiner: tf.keras.layers.Layer | None = None,
        image_encoder: str | None = None,
        name: str = "NormalizingActorNetwork",
    ):
        """See NormalizingCriticNetwork."""
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(observation_spec, preprocessing_combiner, image_encoder)
        self.head = action_head(action_spec).output_layer(is_deterministic=False)
        self.layers_of_head = layers(fc_layer_params, self.head.projection)

    @property
    def kernels(self) -> list[tf.Variable]:
        """The kernels of all dense layers, [inputs, units] each."""
        return self.layers_of_head.kernels

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Any, Nest]:
        """Returns (distribution, `network_state` unchanged), by the running moments."""
        projected = self.layers_of_head(self.encoder(observation))
        return self.head.of(projected), network_state

    def of_batch(self, observation: Nest, *arguments: Any) -> tuple[Any, list[Moments]]:
        """Returns the distribution by the batch's moments, and the moments of each layer."""
        projected, moments = self.layers_of_head.of_batch(self.encoder(observation), *arguments)
        return self.head.of(projected), moments

    def update_moments(self, moments: list[Moments]) -> None:
        """Moves the running moments towards those of a batch."""
        self.layers_of_head.update(moments)


def expectation(probabilities: tf.Tensor, support: tuple[float, ...]) -> tf.Tensor:
    """Returns the mean of distributions [..., bins] over `support`: [...]."""
    return tf.linalg.matvec(probabilities, tf.constant(support))
