"""Holds what depends on the kind of an action space; another kind is another head."""

import abc
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.networks.distributions import SquashedGaussian

Floats = NDArray[np.float32]
LOG_STD_RANGE = (-20.0, 2.0)  # as in the authors' code of arXiv:1812.05905


class NumpyHead(Protocol):
    """What an actor's head does in NumPy, for one env step without batch axis.

    `outputs` [n] float32 are those of the actor's last layer.
    """

    num_noises: int  # numbers of mean 0 and variance 1 that a random action takes; they may be 0

    def greedy(self, outputs: Floats) -> Any:
        """Returns the action of an evaluation: the mode, or that of a deterministic actor."""

    def sample(self, outputs: Floats, noise: Floats) -> Any:
        """Returns a random action of a stochastic actor, which `noise` [num_noises] decides."""

    def perturbed(self, outputs: Floats, noise: Floats) -> Any:
        """Returns the action of a deterministic actor with `noise`, and within the bounds."""

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Floats]:
        """Returns by name what an exported model makes greedy actions of features with.

        `kernel` [features, n] and `bias` [n] are those of the last layer.
        """


class OutputLayer(tf.keras.layers.Layer, abc.ABC):
    """The last layer of an actor; it has all variables that depend on the action space."""

    def __init__(self, num_outputs: int, name: str, projection_name: str):
        """Makes no variables yet."""
        super().__init__(name=name)
        self.projection = tf.keras.layers.Dense(num_outputs, name=projection_name)

    def call(self, features: tf.Tensor) -> Any:
        """Returns what the actor gives for `features` [..., n]."""
        return self.of(self.projection(features))

    @abc.abstractmethod
    def of(self, outputs: tf.Tensor) -> Any:
        """Returns what `outputs` [..., num_outputs] of the projection stand for.

        It is the distribution over actions, or the action of a deterministic actor.
        """

    @abc.abstractmethod
    def numpy_head(self) -> NumpyHead:
        """Returns the twin in NumPy of what follows the projection."""


class ActionHead(abc.ABC):
    """What agents and networks ask about the actions of a space; it has no variables.

    The random actions of the first fill are not asked for here: `RandomPolicy` draws them from the
    specs of any environment, also from those of which only a user's own agent knows how to act.
    """

    action_spec: Nest
    default_target_entropy: float  # in nats, what the temperature is adjusted for

    @abc.abstractmethod
    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """Returns a new last layer of an actor.

        Raises:
          ConfigError: If `is_deterministic` and no gradient flows through actions of this kind.
        """

    @abc.abstractmethod
    def sample(self, distribution: Any) -> tuple[Any, tf.Tensor]:
        """Returns actions of an actor's distribution and their log-probabilities [...].

        The probabilities are such that nothing learned depends on the unit of the action.
        """

    @abc.abstractmethod
    def expectation(self, distribution: Any, judge: Callable[[Any, tf.Tensor], Any]) -> Any:
        """Returns the mean, over the actor's actions, of each tensor that `judge` gives.

        It may be estimated by one action. Gradients flow to the actor.

        Args:
          distribution: Of an actor, over actions [..., A].
          judge: Of actions and their log-probabilities; it asks critics. Where actions can be
            counted, it is asked about all at once, whose axis is the last of what it gives: they
            are no inputs of the critics then but their outputs.
        """

    @abc.abstractmethod
    def critic_inputs(self, action: Any) -> tf.Tensor:
        """Returns what critics take beside the observation, [..., m], for actions [..., A].

        It has m = 0 where the critics' outputs are the values of all actions.
        """


class BoxHead(ActionHead):
    """One bounded float32 vector.

    Log-probabilities are those of actions scaled to [-1, 1], so that neither the temperature nor
    the value of staying alive depends on the unit of the action. Means are those of one action.
    """

    def __init__(self, action_spec: Nest):
        """Takes the spec of the environment's action.

        Raises:
          ConfigError: If it is not one finite, bounded, floating point vector.
        """
        self.action_spec = action_spec
        self.center, self.magnitude = _center_and_magnitude(action_spec)
        self.low, self.high = self.center - self.magnitude, self.center + self.magnitude
        self.num_actions = self.center.size
        self.default_target_entropy = -self.num_actions  # arXiv:1812.05905, table 1
        self._is_scaled = not self.center.any() and (self.magnitude == 1).all()
        # log of the bounds' volume by that of [-1, 1]^A: log pi of a scaled action is so much more.
        self._log_volume = float(np.log(self.magnitude).sum())

    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """See ActionHead; no space of this kind is refused."""
        return _DeterministicLayer(self) if is_deterministic else _GaussianLayer(self)

    def sample(self, distribution: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead; actions are [..., A]."""
        if isinstance(distribution, SquashedGaussian):
            actions, log_prob = distribution.experimental_sample_and_log_prob()
        else:  # TF-Agents' own distributions have no joint method
            actions = distribution.sample()
            log_prob = distribution.log_prob(actions)
        return actions, log_prob + self._log_volume

    def expectation(self, distribution: Any, judge: Callable[[Any, tf.Tensor], Any]) -> Any:
        """See ActionHead; returns what `judge` gives for one action, which it has drawn."""
        return judge(*self.sample(distribution))

    def critic_inputs(self, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead; returns the actions scaled to [-1, 1]."""
        return action if self._is_scaled else (action - self.center) / self.magnitude


class _GaussianLayer(OutputLayer):
    """Features -> SquashedGaussian over the bounds; [..., 2 A] outputs, means and log stds."""

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
    """Features -> center + magnitude * tanh(mean), within the bounds; [..., A] outputs, means."""

    def __init__(self, head: BoxHead):
        super().__init__(head.num_actions, "deterministic_head", "mean")
        self._head = head

    def of(self, outputs: tf.Tensor) -> tf.Tensor:
        return self._head.center + self._head.magnitude * tf.tanh(outputs)

    def numpy_head(self) -> NumpyHead:
        return NumpyBoxHead(self._head)


class NumpyBoxHead:
    """The twin of both layers for a Box; see NumpyHead. Actions are [A] float32."""

    def __init__(self, head: BoxHead):
        """Copies the bounds."""
        self.num_noises = head.num_actions
        self._center, self._magnitude = head.center, head.magnitude
        # As the environment has them: center - magnitude is rounded.
        self._low = np.asarray(head.action_spec.minimum, np.float32)
        self._high = np.asarray(head.action_spec.maximum, np.float32)

    def gaussian(self, outputs: Floats) -> tuple[Floats, Floats]:
        """Returns (loc [A], log_std [A]) before the squashing, of a stochastic actor."""
        low, high = LOG_STD_RANGE  # np.clip takes four times as long
        loc, log_std = outputs[: self.num_noises], outputs[self.num_noises :]
        return loc, np.minimum(np.maximum(log_std, low), high)

    def greedy(self, outputs: Floats) -> Floats:
        """See NumpyHead."""
        return self._squashed(outputs[: self.num_noises])

    def sample(self, outputs: Floats, noise: Floats) -> Floats:
        """See NumpyHead."""
        loc, log_std = self.gaussian(outputs)
        return self._squashed(loc + np.exp(log_std) * noise)

    def perturbed(self, outputs: Floats, noise: Floats) -> Floats:
        """See NumpyHead; `noise` [A] is added to the action scaled to [-1, 1]."""
        return self._squashed(outputs, noise)

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Floats]:
        """Returns `mean_kernel`, `mean_bias`, and [A] each, `center`, `magnitude`, `low`, `high`.

        action = clip(center + magnitude * tanh(mean), low, high).
        """
        num = self.num_noises
        bounds = {"center": self._center, "magnitude": self._magnitude,
                  "low": self._low, "high": self._high}  # fmt: skip
        arrays = {"mean_kernel": kernel[:, :num], "mean_bias": bias[:num]}
        return arrays | {name: np.broadcast_to(value, [num]) for name, value in bounds.items()}

    def _squashed(self, pre_tanh: Floats, noise: Floats | float = 0.0) -> Floats:
        action = self._center + self._magnitude * (np.tanh(pre_tanh) + noise)
        return np.minimum(np.maximum(action, self._low), self._high)  # the sum is rounded


def action_head(action_spec: Nest) -> ActionHead:
    """Returns the head for an environment's action.

    Raises:
      ConfigError: If there is none for it.
    """
    return BoxHead(action_spec)


def _center_and_magnitude(action_spec: Nest) -> tuple[Floats, Floats]:
    """Returns the middle and the half width of the action bounds, [A] float32 each."""
    is_vector = (
        isinstance(action_spec, tensor_spec.BoundedTensorSpec)
        and action_spec.dtype.is_floating
        and len(action_spec.shape) == 1
    )
    if not is_vector:
        raise _unusable(action_spec)
    low = np.broadcast_to(action_spec.minimum, action_spec.shape).astype(np.float32)
    high = np.broadcast_to(action_spec.maximum, action_spec.shape).astype(np.float32)
    with np.errstate(over="ignore"):
        is_finite = np.all(np.isfinite(high - low))
    if not is_finite or np.any(high <= low):
        raise _unusable(action_spec)
    return (high + low) / 2, (high - low) / 2


def _unusable(action_spec: Nest) -> ConfigError:
    if tf.nest.is_nested(action_spec):
        found = f"a nest, {action_spec}"
    else:
        found = f"{action_spec.dtype.name} {list(action_spec.shape)}"
        if not action_spec.dtype.is_floating:
            found = f"discrete, {found}"
        if isinstance(action_spec, tensor_spec.BoundedTensorSpec):
            found += f" from {action_spec.minimum.tolist()} to {action_spec.maximum.tolist()}"
        else:
            found += " without bounds"
    return ConfigError(
        f"The built-in agents cannot act in this environment: its action is {found}. Allowed is "
        "a Box: one floating point vector with finite bounds, minimum < maximum, such as "
        "gym.spaces.Box(-1, 1, (2,)). Wrap the environment in TrainParams.env_ctor, or return "
        "another one."
    )
