"""Chooses the encoder for a network's observations by their kind."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tree
from tf_agents.networks import network

from tfagents_system.core.nests import Nest
from tfagents_system.core.observation_kinds import is_entities
from tfagents_system.data.images import is_image
from tfagents_system.networks.encoders import ObservationEncoder
from tfagents_system.networks.entity_encoder import EntityEncoder
from tfagents_system.networks.goal_conditioning import GoalReader
from tfagents_system.networks.image_encoders import VisualEncoder


def has_images(observation_spec: Nest) -> bool:
    """Returns whether a part of an observation is an image."""
    return any(map(is_image, tree.flatten(observation_spec)))


def observation_encoder(
    observation_spec: Nest,
    preprocessing_combiner: Callable[..., Any] | None = None,
    image_encoder: str | None = None,
) -> tf.keras.layers.Layer:
    """Returns the encoder of a network's observations.

    Args:
      observation_spec: Nest of TensorSpecs without batch axis.
      preprocessing_combiner: See ObservationEncoder, which then encodes images and entities, too.
      image_encoder: See VisualEncoder, for observations with images.
    """
    if preprocessing_combiner is not None:
        return ObservationEncoder(observation_spec, preprocessing_combiner)
    specs = tf.nest.flatten(observation_spec)
    if any(map(is_entities, specs)):
        others = [spec for spec in specs if not is_entities(spec)]
        encoder = observation_encoder(others, None, image_encoder) if others else None
        return EntityEncoder(observation_spec, encoder)
    if has_images(observation_spec):
        return VisualEncoder(observation_spec, image_encoder)
    return ObservationEncoder(observation_spec)


def is_visual(encoder: tf.keras.layers.Layer) -> bool:
    """Returns whether an encoder, or its encoder of all but entities, has convolutions."""
    return isinstance(getattr(encoder, "others", encoder), VisualEncoder)


class VisualSummarizer(network.Network):
    """Observation with images -> features [n] by convolutions; no state."""

    def __init__(
        self,
        observation_spec: Nest,
        image_encoder: str | None = None,
        name: str = "VisualSummarizer",
    ):
        """Makes the variables; see `observation_encoder`."""
        super().__init__(observation_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(observation_spec, None, image_encoder)
        self.goals = GoalReader(observation_spec)
        features_spec = tf.TensorSpec([self.encoder.num_features], tf.float32, "features")
        self.features_spec = self.goals.spec_beside(features_spec)

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Nest, Nest]:
        """Returns (features, `network_state` unchanged), [B, n] or [B, T, n].

        The features are as in `GoalReader.beside`.
        """
        return self.goals.beside(self.encoder(observation), observation), network_state
