"""The networks of signals: features of observations, and dense layers."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfagents_system.core.nests import Nest
from tfagents_system.data.images import is_image
from tfagents_system.networks.image_encoders import VisualEncoder
from tfagents_system.networks.observation_encoders import observation_encoder


def dense(units: int, name: str, activation: str | None = "swish") -> tf.keras.layers.Layer:
    """Returns a Dense layer with the initial weights of ML-Agents; swish is x sigmoid(x)."""
    initializer = tf.keras.initializers.VarianceScaling(1.0, "fan_in", "truncated_normal")
    return tf.keras.layers.Dense(units, activation, kernel_initializer=initializer, name=name)


def applied(layers: Sequence[Callable[[tf.Tensor], tf.Tensor]], inputs: tf.Tensor) -> tf.Tensor:
    """Returns the output of the last of `layers`."""
    for layer in layers:
        inputs = layer(inputs)
    return inputs


class SignalEncoder(tf.Module):
    """Observation -> features: those of each image, and those of all other parts together.

    An image goes through convolutions and one dense layer, the other parts through `num_layers`.
    """

    def __init__(
        self,
        observation_spec: Nest,
        units: int,
        image_encoder: str | None,
        preprocessing_combiner: Callable[..., Any] | None,
        name: str,
        num_layers: int = 2,
    ):
        """Makes the variables.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          units: Units of each dense layer.
          image_encoder: See VisualEncoder.
          preprocessing_combiner: Joins the parts instead; see `observation_encoder`.
          name: Prefix of the names of the layers.
          num_layers: Dense layers for the parts that are not images.
        """
        super().__init__(name=name)
        specs = tf.nest.flatten(observation_spec)
        self._is_combined = preprocessing_combiner is not None
        self._is_image = [not self._is_combined and is_image(spec) for spec in specs]
        images = [spec for spec, own in zip(specs, self._is_image, strict=True) if own]
        self.image_layers = [
            [VisualEncoder(spec, image_encoder), dense(units, f"{name}_image_{index}")]
            for index, spec in enumerate(images)
        ]
        others = [spec for spec, own in zip(specs, self._is_image, strict=True) if not own]
        self.vector_layers: list[Any] = []
        if others:
            joined = observation_spec if self._is_combined else others
            encoder = observation_encoder(joined, preprocessing_combiner)
            layers = [dense(units, f"{name}_{index}") for index in range(num_layers)]
            self.vector_layers = [encoder, *layers]
        zeros = tf.nest.map_structure(lambda s: tf.zeros([1, *s.shape], s.dtype), observation_spec)
        self.num_features = int(self(zeros).shape[-1])

    def __call__(self, observation: Nest) -> tf.Tensor:
        """Returns [B, n] for leaves [B, ...], or [B, T, n] for leaves [B, T, ...]."""
        pairs = list(zip(tf.nest.flatten(observation), self._is_image, strict=True))
        images = [leaf for leaf, own in pairs if own]
        features = [
            applied(layers, image) for layers, image in zip(self.image_layers, images, strict=True)
        ]
        if self.vector_layers:
            others = observation if self._is_combined else [leaf for leaf, own in pairs if not own]
            features.append(applied(self.vector_layers, others))
        return tf.concat(features, axis=-1)
