"""The hidden layers of the built-in actors and critics."""

from collections.abc import Sequence

import tensorflow as tf

from tfagents_system.networks.goal_conditioning import GoalConditionedDense
from tfagents_system.networks.layer_norm import LayerNormRelu
from tfagents_system.networks.matmul import Dense


class NormalizedDense(tf.keras.layers.Layer):
    """Dense + dropout + layer normalization + ReLU; dropout acts in every call.

    Source: Hiraoka et al. 2022, Dropout Q-Functions for Doubly Efficient Reinforcement Learning,
    arXiv:2110.02034, section 3.
    """

    def __init__(
        self,
        units: int,
        dropout_rate: float,
        is_first: bool = False,
        is_conditioned: bool = False,
        name: str | None = None,
    ):
        """Makes no variables yet.

        Args:
          units: Length of the outputs.
          dropout_rate: In [0, 1).
          is_first: See Dense.
          is_conditioned: Whether it is a GoalConditionedDense instead.
          name: Name of the layer.
        """
        super().__init__(name=name)
        if is_conditioned:
            self._dense = GoalConditionedDense(units, has_relu=False)
        else:
            self._dense = Dense(units, is_first, has_relu=False)
        self._dropout_rate = dropout_rate
        self._norm = LayerNormRelu()

    def call(self, inputs: tf.Tensor, *goals: tf.Tensor) -> tf.Tensor:
        """Returns [..., units] for `inputs` [..., n] and, if it is conditioned, goals [..., g]."""
        features = self._dense(inputs, *goals)
        if self._dropout_rate:
            features = tf.nn.dropout(features, self._dropout_rate)
        return self._norm(features)


def dense_layers(
    fc_layer_params: Sequence[int],
    layer_norm: bool = False,
    dropout_rate: float = 0.0,
    is_conditioned: bool = False,
) -> list[tf.keras.layers.Layer]:
    """Returns Dense + ReLU layers with these numbers of units; the first reads observations.

    With `layer_norm` they are NormalizedDense. If they are conditioned on goals, the last one is a
    GoalConditionedDense, see `through`.
    """
    layers: list[tf.keras.layers.Layer] = []
    for index, units in enumerate(fc_layer_params):
        is_first, name = index == 0, f"hidden_{index}"
        takes_goals = is_conditioned and index == len(fc_layer_params) - 1
        if layer_norm:
            layer = NormalizedDense(units, dropout_rate, is_first, takes_goals, name)
        elif takes_goals:
            layer = GoalConditionedDense(units, name=name)
        else:
            layer = Dense(units, is_first, name=name)
        layers.append(layer)
    return layers


def through(
    layers: Sequence[tf.keras.layers.Layer], features: tf.Tensor, goals: tf.Tensor | None
) -> tf.Tensor:
    """Returns the output of the last of `dense_layers`, which takes `goals` if there are any."""
    for index, layer in enumerate(layers):
        takes_goals = goals is not None and index == len(layers) - 1
        features = layer(features, goals) if takes_goals else layer(features)
    return features
