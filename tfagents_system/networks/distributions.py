"""The policy distribution of the built-in actors."""

import math
from typing import Any

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
