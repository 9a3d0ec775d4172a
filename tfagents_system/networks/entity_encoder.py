"""Encodes lists of entities of any length by attention.

Sources: Baker et al. 2019, Emergent Tool Use From Multi-Agent Autocurricula, arXiv:1909.07528,
appendix B.7, with the sizes and initial weights of Unity ML-Agents; Vaswani et al. 2017, Attention
Is All You Need, arXiv:1706.03762, equation 1 and section 3.2.2.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from tfagents_system.core.nests import Nest
from tfagents_system.core.observation_kinds import is_entities

SIZE = 128  # length of an embedding
NUM_HEADS = 4
LEAST_SQUARES = 0.01  # an entity with a smaller sum of squares is absent
EPSILON = 1e-5  # added to variances
ABSENT = -1e6  # score of entities that get no attention


class EntityEncoder(tf.keras.layers.Layer):
    """Joins an observation with lists of entities to one float32 vector for each step.

    The other parts are joined by their own encoder. The SIZE features of all entities together
    follow, zeros if none is present.
    """

    def __init__(self, observation_spec: Nest, others: tf.keras.layers.Layer | None):
        """Makes no variables yet.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          others: Encoder of the list of all leaves that are not entities; None if there are none.
        """
        super().__init__(name="entity_encoder")
        self.specs = tf.nest.flatten(observation_spec)
        self.others = others
        num_lists = sum(map(is_entities, self.specs))
        self.attention = EntityAttention(num_lists, has_self=others is not None)
        self.num_features = SIZE + (0 if others is None else others.num_features)

    def call(self, observation: Nest) -> tf.Tensor:
        """Returns [B, n] for leaves [B, ...], or [B, T, n] for leaves [B, T, ...]."""
        leaves = tf.nest.flatten(observation)
        outer = tf.shape(leaves[0])[: leaves[0].shape.rank - len(self.specs[0].shape)]
        lists, others = [], []
        for leaf, spec in zip(leaves, self.specs, strict=True):
            rows = tf.reshape(leaf, [-1, *spec.shape])
            if is_entities(spec):
                lists.append(tf.cast(rows, tf.float32))
            else:
                others.append(rows)
        if self.others is None:
            joined = self.attention(lists)
        else:
            features = self.others(others)
            joined = tf.concat([features, self.attention(lists, features)], axis=-1)
        return tf.reshape(joined, tf.concat([outer, [self.num_features]], axis=0))


class EntityAttention(tf.keras.layers.Layer):
    """Lists of entities -> an embedding of each -> residual self-attention -> their mean.

    Each list has a dense layer that embeds an entity together with an embedding of everything else
    that is observed.
    """

    def __init__(self, num_lists: int, has_self: bool):
        """Makes no variables yet; `has_self` tells whether anything else is observed."""
        super().__init__(name="entity_attention")
        self._self_layers = [_dense("self", "swish")] if has_self else []
        self._embedding_layers = [_dense(f"entities_{k}", "swish") for k in range(num_lists)]
        self._attention_layers = [_dense(name) for name in ("query", "key", "value", "output")]

    @property
    def dense_layers(self) -> list[tf.keras.layers.Dense]:
        """The layers of everything else, each list, query, key, value and output, in order."""
        return [*self._self_layers, *self._embedding_layers, *self._attention_layers]

    def call(self, lists: Sequence[tf.Tensor], features: tf.Tensor | None = None) -> tf.Tensor:
        """Returns [B, SIZE].

        Args:
          lists: [B, most entities, features of an entity] float32 each.
          features: [B, n] of everything else.
        """
        squares = [tf.reduce_sum(tf.square(entities), axis=-1) for entities in lists]
        present = tf.cast(tf.concat(squares, axis=1) >= LEAST_SQUARES, tf.float32)
        x = standardized(tf.concat(self._embedded(lists, features), axis=1))
        query, key, value, output = self._attention_layers
        attended = _attended(query(x), key(x), value(x), present)
        x = standardized(x + output(attended))
        total = tf.reduce_sum(x * present[..., tf.newaxis], axis=1)
        return total / tf.maximum(tf.reduce_sum(present, axis=1, keepdims=True), 1.0)

    def _embedded(self, lists: Sequence[tf.Tensor], features: tf.Tensor | None) -> list[tf.Tensor]:
        """Returns [B, most entities, SIZE] for each list."""
        if features is not None:
            (self_layer,) = self._self_layers
            of_self = self_layer(features)[:, tf.newaxis]
            lists = [
                tf.concat([tf.repeat(of_self, entities.shape[1], axis=1), entities], axis=-1)
                for entities in lists
            ]
        return [
            layer(entities) for layer, entities in zip(self._embedding_layers, lists, strict=True)
        ]


def standardized(x: tf.Tensor) -> tf.Tensor:
    """Returns (x - mean) / deviation over the last axis: layer normalization without weights."""
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered / tf.sqrt(variance + EPSILON)


def _attended(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Returns the attended values [B, n, SIZE] of the entities that are `present` [B, n].

    As in ML-Agents, scores are divided by the root of SIZE, not of a head's share of it.
    """

    def by_head(x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(
            tf.reshape(x, [-1, x.shape[1], NUM_HEADS, SIZE // NUM_HEADS]), [0, 2, 1, 3]
        )

    scores = tf.matmul(by_head(query), by_head(key), transpose_b=True) / math.sqrt(SIZE)
    is_present = present[:, tf.newaxis, tf.newaxis] > 0
    shares = tf.nn.softmax(tf.where(is_present, scores, ABSENT))
    attended = tf.transpose(tf.matmul(shares, by_head(value)), [0, 2, 1, 3])
    return tf.reshape(attended, [-1, value.shape[1], SIZE])


def _dense(name: str, activation: str | None = None) -> tf.keras.layers.Dense:
    """Returns a layer with the small initial weights of Huang et al. 2020, T-Fixup."""
    initializer = tf.keras.initializers.RandomNormal(stddev=math.sqrt(0.125 / SIZE))
    return tf.keras.layers.Dense(SIZE, activation, kernel_initializer=initializer, name=name)
