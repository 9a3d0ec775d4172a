"""The head for one bounded float32 vector, with a Gaussian squashed by tanh."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.networks.distributions import SquashedGaussian
from tfagents_system.networks.heads import (
    ActionHead,
    Floats,
    NumpyHead,
    OutputLayer,
    unsupported_action,
)

LOG_STD_RANGE = (-20.0, 2.0)  # as in the authors' code of arXiv:1812.05905


class BoxHead(ActionHead):
    """The head for one bounded float32 vector.

    Log-probabilities refer to actions scaled to [-1, 1], so that neither the temperature nor the
    value of staying alive depends on the unit of the action. Means are estimated from one action.
    """

    num_values = 1
    part_weights = 1.0

    def __init__(self, action_spec: Nest):
        """Takes the spec of the environment's action.

        Raises:
          ConfigError: If it is not a float32 vector with finite bounds.
        """
        self.action_spec = action_spec
        self.center, self.magnitude = _center_and_magnitude(action_spec)
        self.low, self.high = self.center - self.magnitude, self.center + self.magnitude
        self.num_actions = self.center.size
        self.vector_size = self.num_actions
        self.default_target_entropy = -self.num_actions  # arXiv:1812.05905, table 1
        self._is_scaled = not self.center.any() and (self.magnitude == 1).all()
        # log of the bounds' volume over that of [-1, 1]^A: the change of log pi by scaling.
        self._log_volume = float(np.log(self.magnitude).sum())

    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """See ActionHead; all spaces of this kind are supported."""
        return _DeterministicLayer(self) if is_deterministic else _GaussianLayer(self)

    def masked(self, distribution: Any, mask: tf.Tensor) -> Any:
        """See ActionHead; there are no integers."""
        return distribution

    def sample(self, distribution: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead; actions are [..., A]."""
        if isinstance(distribution, SquashedGaussian):
            actions, log_prob = distribution.experimental_sample_and_log_prob()
        else:  # TF-Agents' distributions have no joint method
            actions = distribution.sample()
            log_prob = distribution.log_prob(actions)
        return actions, log_prob + self._log_volume

    def expectation(
        self, distribution: Any, judge: Callable[[Any], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead; evaluates one sampled action."""
        actions, log_prob = self.sample(distribution)
        return judge(actions), log_prob

    def critic_inputs(self, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead; returns the actions scaled to [-1, 1]."""
        return action if self._is_scaled else (action - self.center) / self.magnitude

    def as_vector(self, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead."""
        return self.critic_inputs(action)

    def prediction(self, distribution: Any) -> tf.Tensor:
        """See ActionHead."""
        is_action = tf.is_tensor(distribution)  # of a deterministic actor
        return self.as_vector(distribution if is_action else distribution.sample())

    def prediction_error(self, predicted: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead."""
        return tf.reduce_sum(tf.square(predicted - self.as_vector(action)), axis=-1)

    def taken(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead; returns `values`."""
        return values


class _GaussianLayer(OutputLayer):
    """Features -> SquashedGaussian over the bounds; outputs are means and log stds [..., 2 A]."""

    def __init__(self, head: BoxHead):
        super().__init__(2 * head.num_actions, "gaussian_head", "mean_and_log_std")
        self._head = head

    def of(self, outputs: tf.Tensor) -> SquashedGaussian:
        loc, log_std = tf.split(outputs, 2, axis=-1)
        return SquashedGaussian(
            loc,
            tf.clip_by_value(log_std, *LOG_STD_RANGE),
            self._head.center,
            self._head.magnitude,
        )

    def numpy_head(self) -> NumpyHead:
        return NumpyBoxHead(self._head)


class _DeterministicLayer(OutputLayer):
    """Features -> center + magnitude * tanh(mean), within the bounds; outputs [..., A]."""

    def __init__(self, head: BoxHead):
        super().__init__(head.num_actions, "deterministic_head", "mean")
        self._head = head

    def of(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._head.center + self._head.magnitude * tf.tanh(outputs)

    def numpy_head(self) -> NumpyHead:
        return NumpyBoxHead(self._head)


class NumpyBoxHead:
    """The NumPy version of both layers for a Box; see NumpyHead. Actions are [A] float32."""

    num_choices = 0

    def __init__(self, head: BoxHead):
        """Copies the bounds."""
        self.num_noises = head.num_actions
        self._center, self._magnitude = head.center, head.magnitude
        # The exact bounds, because center - magnitude is rounded.
        self._low = np.asarray(head.action_spec.minimum, np.float32)
        self._high = np.asarray(head.action_spec.maximum, np.float32)
        # Arrays, because scalars double the time of np.maximum.
        self._log_std_range = [np.full(self.num_noises, end, np.float32) for end in LOG_STD_RANGE]

    def gaussian(self, outputs: Floats) -> tuple[Floats, Floats]:
        """Returns (loc [A], log_std [A]) of a stochastic actor, before squashing."""
        low, high = self._log_std_range  # np.clip takes four times as long
        loc, log_std = outputs[..., : self.num_noises], outputs[..., self.num_noises :]
        return loc, np.minimum(np.maximum(log_std, low), high)

    def masked(self, outputs: Floats, mask: NDArray[Any]) -> Floats:
        """See NumpyHead; there are no integers."""
        return outputs

    def greedy(self, outputs: Floats) -> Floats:
        """See NumpyHead."""
        return self._scaled(np.tanh(outputs[..., : self.num_noises]))

    def sample(self, outputs: Floats, noise: Floats) -> Floats:
        """See NumpyHead."""
        loc, log_std = self.gaussian(outputs)
        return self._scaled(np.tanh(loc + np.exp(log_std) * noise))

    def perturbed(self, outputs: Floats, noise: Floats) -> Floats:
        """See NumpyHead; `noise` [A] is added to the action scaled to [-1, 1]."""
        return self._scaled(np.tanh(outputs) + noise)

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Floats]:
        """Returns `mean_kernel`, `mean_bias`, and `center`, `magnitude`, `low`, `high`, [A] each.

        action = clip(center + magnitude * tanh(mean), low, high).
        """
        num = self.num_noises
        bounds = {"center": self._center, "magnitude": self._magnitude,
                  "low": self._low, "high": self._high}  # fmt: skip
        arrays = {"mean_kernel": kernel[:, :num], "mean_bias": bias[:num]}
        return arrays | {name: np.broadcast_to(value, [num]) for name, value in bounds.items()}

    def _scaled(self, action: Floats) -> Floats:
        """Converts an action scaled to [-1, 1] to the environment's unit, within its bounds."""
        action = self._center + self._magnitude * action
        return np.minimum(np.maximum(action, self._low), self._high)  # the sum is rounded


def _center_and_magnitude(action_spec: Nest) -> tuple[Floats, Floats]:
    """Returns the middle and the half width of the action bounds, [A] float32 each."""
    is_vector = (
        isinstance(action_spec, tensor_spec.BoundedTensorSpec)
        and action_spec.dtype.is_floating
        and len(action_spec.shape) == 1
    )
    if not is_vector:
        raise unsupported_action(action_spec)
    if action_spec.dtype != tf.float32:
        raise ConfigError(
            f"The environment's action_spec has dtype {action_spec.dtype.name} "
            f"{list(action_spec.shape)}; expected float32. Declare that, and cast actions in the "
            "environment, or return an environment of gym or gymnasium as it is, which is cast."
        )
    low = np.broadcast_to(action_spec.minimum, action_spec.shape).astype(np.float32)
    high = np.broadcast_to(action_spec.maximum, action_spec.shape).astype(np.float32)
    with np.errstate(over="ignore"):
        is_finite = np.all(np.isfinite(high - low))
    if not is_finite or np.any(high <= low):
        raise unsupported_action(action_spec)
    return (high + low) / 2, (high - low) / 2
