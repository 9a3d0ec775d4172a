"""The policy distributions of the built-in actors."""

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd


@tfp.experimental.auto_composite_tensor(omit_kwargs=("name",))
class SquashedGaussian(tfd.AutoCompositeTensorDistribution):
    """The distribution of a = center + magnitude * tanh(u), u ~ N(loc, diag(exp(log_std))^2).

    The last axis is the event.

    log pi(a) = sum_i [log N(u_i; loc_i, std_i) - log(1 - tanh(u_i)^2) - log magnitude_i].
    Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905,
    appendix C (equation 26), extended by the change of variables from [-1, 1] to the action bounds.

    `experimental_sample_and_log_prob` knows u and never inverts tanh; `log_prob` of an arbitrary
    action does, and clips tanh(u) to 1 - 1e-6 to stay finite.
    """

    def __init__(
        self,
        loc: tf.Tensor,
        log_std: tf.Tensor,
        center: tf.Tensor,
        magnitude: tf.Tensor,
        name: str = "SquashedGaussian",
    ):
        """Takes parameters [..., A]; `center` and `magnitude` > 0 describe the action bounds."""
        parameters = dict(locals())
        with tf.name_scope(name) as name:
            self._loc = tf.convert_to_tensor(loc)
            self._log_std = tf.convert_to_tensor(log_std)
            self._center = tf.convert_to_tensor(center)
            self._magnitude = tf.convert_to_tensor(magnitude)
            super().__init__(
                dtype=self._loc.dtype,
                reparameterization_type=tfd.FULLY_REPARAMETERIZED,
                validate_args=False,
                allow_nan_stats=True,
                parameters=parameters,
                name=name,
            )

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict[str, Any]:
        event = tfp.util.ParameterProperties(event_ndims=1)
        return {"loc": event, "log_std": event, "center": event, "magnitude": event}

    def _event_shape(self) -> tf.TensorShape:
        return self._loc.shape[-1:]

    def _event_shape_tensor(self) -> tf.Tensor:
        return tf.shape(self._loc)[-1:]

    def _action(self, pre_tanh: tf.Tensor) -> tf.Tensor:
        return self._center + self._magnitude * tf.tanh(pre_tanh)

    def _sample_pre_tanh(self, sample_shape: Any, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        shape = tf.concat([sample_shape, tf.shape(self._loc)], axis=0)
        noise = tf.random.stateless_normal(shape, tfp.random.sanitize_seed(seed))
        return self._loc + tf.exp(self._log_std) * noise, noise

    def _log_prob_of(self, pre_tanh: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), which does not underflow for large u
        log_slope = 2.0 * (math.log(2.0) - pre_tanh - tf.math.softplus(-2.0 * pre_tanh))
        return tf.reduce_sum(
            -0.5 * tf.square(noise)
            - self._log_std
            - 0.5 * math.log(2.0 * math.pi)
            - log_slope
            - tf.math.log(self._magnitude),
            axis=-1,
        )

    def _sample_n(self, n: tf.Tensor, seed: Any = None) -> tf.Tensor:
        return self._action(self._sample_pre_tanh([n], seed)[0])

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        tanh = tf.clip_by_value((value - self._center) / self._magnitude, -1 + 1e-6, 1 - 1e-6)
        pre_tanh = tf.math.atanh(tanh)
        return self._log_prob_of(pre_tanh, (pre_tanh - self._loc) * tf.exp(-self._log_std))

    def _sample_and_log_prob(
        self, sample_shape: Any, seed: Any, **kwargs: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        pre_tanh, noise = self._sample_pre_tanh(tf.cast(sample_shape, tf.int32), seed)
        return self._action(pre_tanh), self._log_prob_of(pre_tanh, noise)

    def _mode(self) -> tf.Tensor:
        return self._action(self._loc)


@tfp.experimental.auto_composite_tensor(omit_kwargs=("name",))
class Categoricals(tfd.AutoCompositeTensorDistribution):
    """Independent categorical distributions over integers, one for each branch.

    The event is a scalar, or a vector with an entry for each branch. log pi is the sum over
    branches.
    """

    def __init__(
        self, logits: tf.Tensor, start: tf.Tensor, sizes: tf.Tensor, name: str = "Categoricals"
    ):
        """Takes the parameters.

        Args:
          logits: [..., N], branch by branch.
          start: [] or [K], the smallest integer of each branch, of the event's dtype.
          sizes: [K], the number of integers of each branch, constant; N is their sum.
          name: Name of the distribution.
        """
        parameters = dict(locals())
        with tf.name_scope(name) as name:
            self._logits = tf.convert_to_tensor(logits)
            self._start = tf.convert_to_tensor(start)
            self._sizes = tf.convert_to_tensor(sizes)
            super().__init__(
                dtype=self._start.dtype,
                reparameterization_type=tfd.NOT_REPARAMETERIZED,
                validate_args=False,
                allow_nan_stats=True,
                parameters=parameters,
                name=name,
            )

    @property
    def logits(self) -> tf.Tensor:
        """The logits [..., N]."""
        return self._logits

    def log_probs(self) -> tf.Tensor:
        """Returns the log-probability of each integer of each branch, [..., N]."""
        return tf.concat([tf.nn.log_softmax(logits) for logits in self._branches()], axis=-1)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict[str, Any]:
        event = tfp.util.ParameterProperties(event_ndims=1)
        start = tfp.util.ParameterProperties(event_ndims=lambda self: self._start.shape.rank)
        return {"logits": event, "start": start, "sizes": event}

    def _event_shape(self) -> tf.TensorShape:
        return self._start.shape

    def _event_shape_tensor(self) -> tf.Tensor:
        return tf.shape(self._start)

    def _branches(self) -> list[tf.Tensor]:
        sizes = tf.get_static_value(self._sizes)
        ends = np.cumsum(sizes)  # slices, because TensorFlow Lite has no tf.split by int64
        return [self._logits[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def _event(self, chosen: list[tf.Tensor]) -> tf.Tensor:
        """Returns the event for the index of each branch's choice, [...] each."""
        is_scalar = self._start.shape.rank == 0
        numbers = chosen[0] if is_scalar else tf.stack(chosen, axis=-1)
        return self._start + tf.cast(numbers, self._start.dtype)

    def _sample_n(self, n: tf.Tensor, seed: Any = None) -> tf.Tensor:
        seeds = tfp.random.split_seed(seed, n=self._sizes.shape[0])
        return self._event([
            tfd.Categorical(logits=logits).sample(n, seed=one)
            for logits, one in zip(self._branches(), tf.unstack(seeds), strict=True)
        ])  # fmt: skip

    def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
        numbers = value - self._start
        chosen = [numbers] if self._start.shape.rank == 0 else tf.unstack(numbers, axis=-1)
        return tf.add_n([
            tfd.Categorical(logits=logits).log_prob(number)
            for logits, number in zip(self._branches(), chosen, strict=True)
        ])  # fmt: skip

    def _mode(self) -> tf.Tensor:
        return self._event([tf.argmax(logits, axis=-1) for logits in self._branches()])
