"""Batch renormalization, and actor and critic with it, as CrossQ has them.

Sources: Ioffe 2017, Batch Renormalization: Towards Reducing Minibatch Dependence in
Batch-Normalized Models, arXiv:1702.03275, algorithm 1; Bhatt et al. 2024, CrossQ: Batch
Normalization in Deep Reinforcement Learning for Greater Sample Efficiency and Simplicity,
arXiv:1902.05605.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.core.nests import Nest
from tfagents_system.networks import encoders
from tfagents_system.networks.heads import action_head

EPSILON = 1e-3
MOMENTUM = 0.99  # of the running moments
LARGEST_R, LARGEST_D = 3.0, 5.0  # of the paper, once its training has settled
WARM_UP_UPDATES = 100_000  # of a network, with plain batch normalization, as in CrossQ's code

Moments = tuple[tf.Tensor, tf.Tensor]  # mean and variance of a batch, [n] each
Map = tuple[tf.Tensor, tf.Tensor]  # scale and offset, [n] each: x -> scale x + offset


class BatchRenorm(tf.keras.layers.Layer):
    """Normalizes each of n features: a map that is linear in them, once their moments are known.

    The dense layer that follows takes it up into its kernel, which is smaller than a batch.
    """

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates scale and offset, and the running moments, which are not trained."""
        shape = input_shape[-1:]
        self.gamma = self.add_weight("gamma", shape, initializer="ones")
        self.beta = self.add_weight("beta", shape, initializer="zeros")
        self.mean = self.add_weight("mean", shape, initializer="zeros", trainable=False)
        self.variance = self.add_weight("variance", shape, initializer="ones", trainable=False)
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> Map:
        """Returns the map by the running moments, for `inputs` [..., n] of whatever values."""
        scale = self.gamma * tf.math.rsqrt(self.variance + EPSILON)
        return scale, self.beta - self.mean * scale

    def of_batch(self, inputs: tf.Tensor, num_updates: tf.Tensor) -> tuple[Map, Moments]:
        """Returns the map by the moments of `inputs` [B, n], and these.

        After the warm-up it is corrected towards that by the running moments, by r and d of the
        paper, through which no gradient flows.
        """
        mean, variance = moments = _moments(inputs)
        deviation = tf.sqrt(variance + EPSILON)
        running = tf.sqrt(self.variance + EPSILON)
        r = tf.clip_by_value(deviation / running, 1 / LARGEST_R, LARGEST_R)
        d = tf.clip_by_value((mean - self.mean) / running, -LARGEST_D, LARGEST_D)
        is_warm = num_updates >= WARM_UP_UPDATES
        r = tf.stop_gradient(tf.where(is_warm, r, tf.ones_like(r)))
        d = tf.stop_gradient(tf.where(is_warm, d, tf.zeros_like(d)))
        scale = self.gamma * r / deviation
        return (scale, self.gamma * d + self.beta - mean * scale), moments

    def update(self, moments: Moments) -> None:
        """Moves the running moments towards those of a batch."""
        for running, of_batch in zip((self.mean, self.variance), moments, strict=True):
            running.assign_add((1.0 - MOMENTUM) * (of_batch - running))


@tf.custom_gradient
def _moments(inputs: tf.Tensor) -> tuple[Moments, Any]:
    """Mean and variance of each column of [B, n]; the gradient by hand takes two passes."""
    num_rows = tf.cast(tf.shape(inputs)[0], tf.float32)
    mean = tf.reduce_mean(inputs, axis=0)
    centered = inputs - mean
    variance = tf.reduce_sum(tf.square(centered), axis=0) / num_rows

    def gradient(by_mean: tf.Tensor, by_variance: tf.Tensor) -> tf.Tensor:
        return (centered * (2.0 * by_variance) + by_mean) / num_rows

    return (mean, variance), gradient


class RenormalizedLayers(tf.keras.layers.Layer):
    """Renormalization, then Dense + ReLU + the same, each, then the output layer."""

    def __init__(self, fc_layer_params: Sequence[int], output_layer: tf.keras.layers.Dense):
        """Takes the units of the hidden layers, and over the last one."""
        super().__init__(name="renormalized_layers")
        self.hidden_layers = encoders.dense_layers(fc_layer_params)
        self.normalizations = [BatchRenorm() for _ in range(1 + len(self.hidden_layers))]
        self.output_layer = output_layer
        for layer in (*self.hidden_layers, output_layer):
            # Normalized layers learn in steps relative to the size of their weights, and Keras'
            # default makes those that read observations a third of what the authors' code does.
            layer.kernel_initializer = tf.keras.initializers.LecunNormal()

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Returns the outputs [..., units] for `features` [..., n], by the running moments."""
        return self._outputs(features, lambda normalization, x: normalization(x))

    def of_batch(
        self, features: tf.Tensor, num_updates: tf.Tensor
    ) -> tuple[tf.Tensor, list[Moments]]:
        """Returns the outputs [B, units] by the moments of the batch, and those of each layer."""
        all_moments: list[Moments] = []

        def map_of(normalization: BatchRenorm, x: tf.Tensor) -> Map:
            linear_map, moments = normalization.of_batch(x, num_updates)
            all_moments.append(moments)
            return linear_map

        return self._outputs(features, map_of), all_moments

    def no_moments(self) -> list[Moments]:
        """Returns zeros in place of the moments of each layer."""
        return [(tf.zeros_like(n.mean), tf.zeros_like(n.variance)) for n in self.normalizations]

    def update(self, moments: list[Moments]) -> None:
        """Moves the running moments of each layer towards those of a batch."""
        for normalization, of_layer in zip(self.normalizations, moments, strict=True):
            normalization.update(of_layer)

    def _outputs(
        self, features: tf.Tensor, map_of: Callable[[BatchRenorm, tf.Tensor], Map]
    ) -> tf.Tensor:
        for normalization, layer in zip(self.normalizations, self.hidden_layers, strict=False):
            features = layer.of(features, *_taken_up(map_of(normalization, features), layer))
        last = self.output_layer
        kernel, bias = _taken_up(map_of(self.normalizations[-1], features), last)
        return tf.tensordot(features, kernel, 1) + bias

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates the variables of all layers, which are not called themselves."""
        for layer in (*self.hidden_layers, self.output_layer):
            layer.build(input_shape)
            input_shape = [*input_shape[:-1], layer.units]
        super().build(input_shape)


class BatchRenormCriticNetwork(network.Network):
    """(observation, action) -> RenormalizedLayers -> Q; no state."""

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        joint_fc_layer_params: Sequence[int] = (256, 256),
        preprocessing_combiner: Callable[..., Any] | None = None,
        name: str = "BatchRenormCriticNetwork",
    ):
        """See MlpCriticNetwork."""
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(input_tensor_spec[0], preprocessing_combiner)
        self.head = action_head(input_tensor_spec[1])
        value_layer = tf.keras.layers.Dense(1, name="q_value")
        self.layers_of_value = RenormalizedLayers(joint_fc_layer_params, value_layer)

    def call(
        self,
        inputs: tuple[Nest, tf.Tensor],
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[tf.Tensor, Nest]:
        """Returns (Q [B], `network_state` unchanged), by the running moments."""
        return tf.squeeze(self.layers_of_value(self._features(inputs)), axis=-1), network_state

    def of_batch(
        self, inputs: tuple[Nest, tf.Tensor], num_updates: tf.Tensor
    ) -> tuple[tf.Tensor, list[Moments]]:
        """Returns Q [B] by the moments of the batch, and the moments of each layer."""
        values, moments = self.layers_of_value.of_batch(self._features(inputs), num_updates)
        return tf.squeeze(values, axis=-1), moments

    def update_moments(self, moments: list[Moments]) -> None:
        """Moves the running moments towards those of a batch."""
        self.layers_of_value.update(moments)

    def _features(self, inputs: tuple[Nest, tf.Tensor]) -> tf.Tensor:
        observation, action = inputs
        return tf.concat([self.encoder(observation), self.head.critic_inputs(action)], axis=-1)


class BatchRenormActorNetwork(network.Network):
    """Observation -> RenormalizedLayers -> distribution over actions; no state."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        fc_layer_params: Sequence[int] = (256, 256),
        preprocessing_combiner: Callable[..., Any] | None = None,
        name: str = "BatchRenormActorNetwork",
    ):
        """See MlpActorNetwork."""
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(observation_spec, preprocessing_combiner)
        self.head = action_head(action_spec).output_layer(is_deterministic=False)
        self.layers_of_head = RenormalizedLayers(fc_layer_params, self.head.projection)

    @property
    def hidden_layers(self) -> list[tf.keras.layers.Layer]:
        """The dense layers; `layers_of_head.normalizations` come before them and after the last."""
        return self.layers_of_head.hidden_layers

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

    def of_batch(self, observation: Nest, num_updates: tf.Tensor) -> tuple[Any, list[Moments]]:
        """Returns the distribution by the moments of the batch, and those of each layer."""
        projected, moments = self.layers_of_head.of_batch(self.encoder(observation), num_updates)
        return self.head.of(projected), moments

    def update_moments(self, moments: list[Moments]) -> None:
        """Moves the running moments towards those of a batch."""
        self.layers_of_head.update(moments)

    def no_moments(self) -> list[Moments]:
        """Returns zeros in place of the moments of a batch."""
        return self.layers_of_head.no_moments()


def _taken_up(linear_map: Map, layer: tf.keras.layers.Dense) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns kernel and bias with which `layer` does what it would after the map."""
    scale, offset = linear_map
    return scale[:, tf.newaxis] * layer.kernel, layer.bias + tf.linalg.matvec(
        layer.kernel, offset, transpose_a=True
    )
