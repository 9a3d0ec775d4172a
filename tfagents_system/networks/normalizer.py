"""Normalizes observations by the running mean and variance of minibatches."""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.core.observation_kinds import is_entities
from tfagents_system.data.images import is_image

# As in VecNormalize of OpenAI Baselines and Stable-Baselines3.
EPSILON = 1e-8  # added to variances
LARGEST = 10.0  # maximum size of a normalized number


class Statistics(NamedTuple):
    """The statistics of n numbers, such as those of all observations so far; float64."""

    count: tf.Tensor  # []
    mean: tf.Tensor  # [n]
    variance: tf.Tensor  # [n]; 1 at first


def merge(statistics: Statistics, rows: tf.Tensor, weights: tf.Tensor) -> Statistics:
    """Returns `statistics` merged with those of `rows`.

    Source: Chan, Golub and LeVeque 1979, Updating Formulae and a Pairwise Algorithm for Computing
    Sample Variances, equations 2.1.

    Args:
      statistics: Of any number of rows, possibly none.
      rows: [B, n] float64.
      weights: [B, 1] float64: 1 for valid rows, 0 for others.
    """
    count, mean, variance = statistics
    num_new = tf.reduce_sum(weights)
    new_mean = tf.reduce_sum(weights * rows, axis=0) / tf.maximum(num_new, 1.0)
    squares = tf.reduce_sum(weights * tf.square(rows - new_mean), axis=0)
    new_variance = squares / tf.maximum(num_new, 1.0)
    share = num_new / tf.maximum(count + num_new, 1.0)
    step = new_mean - mean
    change = new_variance - variance + (1.0 - share) * tf.square(step)
    return Statistics(count + num_new, mean + share * step, variance + share * change)


def has_numbers(observation_spec: Nest) -> bool:
    """Returns whether a part of an observation can be normalized, such as a vector of floats."""
    return any(map(_is_normalized, tf.nest.flatten(observation_spec)))


def _is_normalized(spec: tf.TypeSpec) -> bool:
    return spec.dtype.is_floating and not is_image(spec) and not is_entities(spec)


class Normalizer(tf.keras.layers.Layer):
    """Maps each number x of an observation to clip((x - mean) / deviation, -10, 10).

        statistics = normalizer.merged(minibatch, weights)   # of all minibatches so far
        networks take normalizer.normalized(minibatch, statistics)
        normalizer.update(statistics)                        # once per train step

    Images, parts that are not floating point, and lists of entities, whose rows of zeros are absent
    entities, stay unchanged. The statistics are variables of the policies that use them, so they
    are saved, published and exported with the weights.

    They are computed from the minibatches of train steps, not from collected env steps: so only one
    place changes them, they do not depend on workers that come and go, lost episodes or restarts,
    and a seed reproduces them. The replay buffer keeps raw observations, so all are normalized by
    the newest statistics.
    """

    def __init__(self, observation_spec: Nest):
        """Creates the variables.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.

        Raises:
          ConfigError: If no part of it is a vector of floating point numbers.
        """
        super().__init__(name="observation_normalizer", autocast=False)
        self.observation_spec = observation_spec
        self._specs = tf.nest.flatten(observation_spec)
        self._sizes = [math.prod(s.shape) if _is_normalized(s) else 0 for s in self._specs]
        if not has_numbers(observation_spec):
            raise ConfigError(
                "TrainParams.normalize_observations is True, but no part of the observation is a "
                f"vector of floating point numbers: it is {observation_spec}. Expected "
                "normalize_observations = False; the networks divide images of uint8 by 255, and "
                "take entities as they are."
            )

        def variable(name: str, shape: tuple[int, ...], initializer: str) -> tf.Variable:
            return self.add_weight(name, shape, tf.float64, initializer, trainable=False)

        self.count = variable("count", (), "zeros")
        self.mean = variable("mean", (sum(self._sizes),), "zeros")
        self.variance = variable("variance", (sum(self._sizes),), "ones")

    @property
    def statistics(self) -> Statistics:
        """The statistics of all minibatches so far."""
        return Statistics(*map(tf.convert_to_tensor, (self.count, self.mean, self.variance)))

    def merged(self, observation: Nest, weights: tf.Tensor) -> Statistics:
        """Returns the statistics merged with a minibatch's, without changing them.

        Args:
          observation: Nest with leaves [B, ...], or [B, T, ...].
          weights: [B], or [B, T]: 1 for valid transitions, 0 for padding.
        """
        weights = tf.cast(tf.reshape(weights, [-1, 1]), tf.float64)
        rows = tf.concat(
            [
                tf.cast(tf.reshape(leaf, [-1, size]), tf.float64)
                for leaf, size in zip(tf.nest.flatten(observation), self._sizes, strict=True)
                if size
            ],
            axis=1,
        )
        return merge(self.statistics, rows, weights)

    def update(self, statistics: Statistics) -> None:
        """Replaces the statistics."""
        for variable, value in zip((self.count, self.mean, self.variance), statistics, strict=True):
            variable.assign(value)

    def call(self, observation: Nest) -> Nest:
        """Normalizes `observation` by all minibatches so far."""
        return self.normalized(observation, self.statistics)

    def normalized(self, observation: Nest, statistics: Statistics) -> Nest:
        """Normalizes the nest `observation`, with leaves [..., *shape], by `statistics`."""
        mean = tf.cast(statistics.mean, tf.float32)
        scale = tf.cast(1.0 / tf.sqrt(statistics.variance + EPSILON), tf.float32)
        leaves, begin = [], 0
        for leaf, spec, size in zip(
            tf.nest.flatten(observation), self._specs, self._sizes, strict=True
        ):
            if size:
                own_mean, own_scale = (
                    tf.reshape(part[begin : begin + size], spec.shape) for part in (mean, scale)
                )
                x = (tf.cast(leaf, tf.float32) - own_mean) * own_scale
                leaf = tf.cast(tf.clip_by_value(x, -LARGEST, LARGEST), leaf.dtype)
            leaves.append(leaf)
            begin += size
        return tf.nest.pack_sequence_as(observation, leaves)

    def arrays(
        self, mean: NDArray[np.float64], variance: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float32]]:
        """Returns the arrays, [m] float32 each, that normalize all m numbers of an observation.

        x -> clip((x - observation_mean) * observation_scale, observation_low, observation_high),
        which leaves images and integers unchanged.

        Args:
          mean: [n], the variable's value.
          variance: [n], the variable's value.
        """
        scale = 1.0 / np.sqrt(variance + EPSILON)
        unchanged = np.array([[0.0], [1.0], [np.finfo(np.float32).max]])
        parts, begin = [], 0
        for spec, size in zip(self._specs, self._sizes, strict=True):
            own = slice(begin, begin + size)
            parts.append(
                np.stack([mean[own], scale[own], np.full(size, LARGEST)])
                if size
                else np.repeat(unchanged, math.prod(spec.shape), axis=1)
            )
            begin += size
        own_mean, own_scale, high = np.concatenate(parts, axis=1).astype(np.float32)
        return {
            "observation_mean": own_mean,
            "observation_scale": own_scale,
            "observation_low": -high,
            "observation_high": high,
        }
