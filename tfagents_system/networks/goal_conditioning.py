"""Conditions a hidden layer on goals: a network that reads them generates its weights.

Sources: Ha et al. 2016, HyperNetworks, arXiv:1609.09106, with the layers and initial weights of
Unity ML-Agents.
"""

import math

import tensorflow as tf

from tfagents_system.core.nests import Nest
from tfagents_system.core.observation_kinds import GOAL, is_goal, marked
from tfagents_system.networks.encoders import as_inputs, num_inputs
from tfagents_system.networks.entity_encoder import standardized


class GoalReader:
    """Reads the goals of an observation as one vector."""

    def __init__(self, observation_spec: Nest):
        """Takes the spec of an observation without batch axis."""
        self.specs = tf.nest.flatten(observation_spec)
        self.num_inputs = sum(map(num_inputs, filter(is_goal, self.specs)))

    def __call__(self, observation: Nest) -> tf.Tensor | None:
        """Returns [B, n] for leaves [B, ...], [B, T, n] for [B, T, ...], and None without goals."""
        leaves = tf.nest.flatten(observation)
        outer = tf.shape(leaves[0])[: leaves[0].shape.rank - len(self.specs[0].shape)]
        parts = []
        for leaf, spec in zip(leaves, self.specs, strict=True):
            if is_goal(spec):
                shape = tf.concat([outer, [math.prod(spec.shape)]], axis=0)
                parts.append(as_inputs(tf.cast(tf.reshape(leaf, shape), tf.float32), spec))
        return tf.concat(parts, axis=-1) if parts else None

    def spec_beside(self, features_spec: tf.TensorSpec) -> Nest:
        """Returns the spec of what `beside` returns."""
        if not self.num_inputs:
            return features_spec
        goals = tf.TensorSpec([self.num_inputs], tf.float32, marked("goals", GOAL))
        return {"features": features_spec, "goals": goals}

    def beside(self, features: tf.Tensor, observation: Nest) -> Nest:
        """Returns `features` of an observation, in a dict with its goals if there are any.

        This gives the networks after a summarizer the goals, too.
        """
        goals = self(observation)
        return features if goals is None else {"features": features, "goals": goals}


class GoalConditionedDense(tf.keras.layers.Layer):
    """A dense layer whose kernel is generated from goals; its bias is not."""

    def __init__(self, units: int, has_relu: bool = True, name: str | None = None):
        """Makes no variables yet; without ReLU it has no activation."""
        super().__init__(name=name)
        self.units = units
        self._has_relu = has_relu
        self.goal_layers = [
            tf.keras.layers.Dense(
                units, "swish", kernel_initializer="he_normal", name=f"goals_{index}"
            )
            for index in range(2)
        ]

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates the bias, and the layer whose outputs are the kernel."""
        self._num_inputs = input_shape[-1]
        bound = math.sqrt(1 / (self.units * self._num_inputs))
        self.generator = tf.keras.layers.Dense(
            self._num_inputs * self.units,
            kernel_initializer=tf.keras.initializers.RandomUniform(-bound, bound),
            name="kernel_of_goals",
        )
        self.bias = self.add_weight("bias", [self.units], initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, goals: tf.Tensor) -> tf.Tensor:
        """Returns [..., units] for `inputs` [..., n] and `goals` [..., g].

        No gradient reaches `goals`.
        """
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        goals = tf.reshape(goals, [-1, goals.shape[-1]])
        # A minibatch has a known number of rows; other calls use only ops that exports support.
        products = self._products_of_minibatch if (rows.shape[0] or 1) > 1 else self._products
        shape = tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0)
        outputs = tf.reshape(products(rows, goals), shape) + self.bias
        return tf.nn.relu(outputs) if self._has_relu else outputs

    def _kernels(self, goals: tf.Tensor) -> tf.Tensor:
        """Returns [B, n, units] for `goals` [B, g]."""
        goals = tf.stop_gradient(goals)
        for layer in self.goal_layers:
            goals = layer(goals)
        return tf.reshape(self.generator(standardized(goals)), [-1, self._num_inputs, self.units])

    def _products(self, rows: tf.Tensor, goals: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(self._kernels(goals), rows, transpose_a=True)

    def _products_of_minibatch(self, rows: tf.Tensor, goals: tf.Tensor) -> tf.Tensor:
        """Generates kernels once per distinct goal, not once per row, if these are few."""
        distinct, index = tf.raw_ops.UniqueV2(x=goals, axis=[0])
        num_rows = rows.shape[0]

        def of_distinct() -> tf.Tensor:
            products = tf.einsum("bn,gnu->bgu", rows, self._kernels(distinct))
            return tf.gather(products, index, batch_dims=1)

        # Multiply-adds for each weight of a kernel: the generator's, and the products'.
        num_distinct = tf.shape(distinct)[0]
        are_few = num_distinct * (self.units + num_rows) < num_rows * (self.units + 1)
        return tf.cond(are_few, of_distinct, lambda: self._products(rows, goals))
