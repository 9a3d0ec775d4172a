"""The head for integers: one of n actions, or one of n_i for each of several branches.

V(s) = mean_i sum_a pi_i(a|s) (min_k Q_k,i(s, a) - alpha_i log pi_i(a|s)), the mean over branches.
Source: Christodoulou 2019, Soft Actor-Critic for Discrete Action Settings, arXiv:1910.07207,
equation 10, extended to branches.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow_probability import distributions as tfd

from tfagents_system.core.action_masks import FORBIDDEN
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.networks.distributions import Categoricals
from tfagents_system.networks.heads import (
    ActionHead,
    Floats,
    NumpyHead,
    OutputLayer,
    unsupported_action,
)

TARGET_ENTROPY = 0.2  # as a share of the largest, log n
MOST_ACTIONS = 10_000  # of all branches; a bounded integer that is not a choice has more


class DiscreteHead(ActionHead):
    """The head for a scalar or a vector of bounded integers; each is a branch.

    The critics return the values of all actions [..., N], branch by branch; the value of an action
    is the mean over its branches, and so are log-probabilities and entropies. If there are several
    branches, each is a part.
    """

    def __init__(self, action_spec: Nest):
        """Takes the spec of the environment's action.

        Raises:
          ConfigError: If it is not a scalar or vector of integers with a choice in each branch.
        """
        self.action_spec = action_spec
        shape = action_spec.shape
        self.start = np.broadcast_to(action_spec.minimum, shape).astype(np.int64)
        last = np.broadcast_to(action_spec.maximum, shape).astype(np.int64)
        self.sizes = np.ravel(last - self.start + 1)
        is_choice = len(shape) <= 1 and self.sizes.size and (self.sizes >= 2).all()
        if not is_choice or self.sizes.sum() > MOST_ACTIONS:
            raise unsupported_action(action_spec)
        self.num_values = self.vector_size = int(self.sizes.sum())
        self.num_branches = self.sizes.size
        self.part_weights = np.full(self.num_branches, 1 / self.num_branches, np.float32)
        self.default_target_entropy = self.part_weights * np.float32(
            TARGET_ENTROPY * np.log(self.sizes)
        )
        if self.num_branches == 1:
            self.part_weights = 1.0
            self.default_target_entropy = float(self.default_target_entropy[0])
        self._ends = np.cumsum(self.sizes)
        self._offsets = self._ends - self.sizes

    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """See ActionHead; there is no deterministic one."""
        if is_deterministic:
            raise ConfigError("A deterministic actor has no discrete actions.")
        return _CategoricalLayer(self)

    def masked(self, distribution: Any, mask: tf.Tensor) -> Any:
        """See ActionHead."""
        logits = self.own(distribution).logits
        return self.categoricals(tf.where(tf.not_equal(mask, 0), logits, FORBIDDEN))

    def reachable_share(self, mask: tf.Tensor) -> tf.Tensor:
        """See ActionHead: log m / log n, with m of n integers allowed."""
        counts = [tf.math.count_nonzero(part, -1, dtype=tf.float32) for part in self.branches(mask)]
        largest = tf.math.log(tf.maximum(tf.stack(counts, axis=-1), 1.0))
        shares = largest / np.log(self.sizes).astype(np.float32)
        return tf.squeeze(shares, axis=-1) if self.num_branches == 1 else shares

    def categoricals(self, logits: tf.Tensor) -> Categoricals:
        """Returns the distribution with `logits` [..., N]."""
        # Arrays, because TF-Agents removes the batch axis of each tensor among the parameters.
        start = self.start.astype(self.action_spec.dtype.as_numpy_dtype)
        return Categoricals(logits, start, self.sizes)

    def own(self, distribution: Any) -> Categoricals:
        """Returns an actor's distribution as Categoricals; a user's network may use a Categorical.

        Raises:
          ConfigError: If it is another distribution, or over other integers.
        """
        if isinstance(distribution, Categoricals):
            return distribution
        given = getattr(distribution, "distribution", distribution)  # of an Independent
        logits = given.logits_parameter() if isinstance(given, tfd.Categorical) else None
        choices = [*self.action_spec.shape, int(self.sizes[0])]
        # A Categorical draws from 0 on, and the same integers in each branch.
        is_possible = not self.start.any() and (self.sizes == self.sizes[0]).all()
        if (
            logits is None
            or not is_possible
            or not logits.shape[-len(choices) :].is_compatible_with(choices)
        ):
            found = type(given).__name__ if logits is None else f"Categorical {logits.shape}"
            possible = f"a Categorical [{', '.join(map(str, ['B', *choices]))}], or "
            raise ConfigError(
                f"TrainParams.actor_ctor returned a network of a {found} for the action "
                f"{self.action_spec}; expected {possible if is_possible else ''}"
                f"action_head(action_spec).categoricals(logits), with logits [B, {self.num_values}]"
                " and action_head of tfagents_system.networks.action_heads."
            )
        batch = tf.shape(logits)[: -len(choices)]
        return self.categoricals(tf.reshape(logits, tf.concat([batch, [self.num_values]], axis=0)))

    def sample(self, distribution: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead."""
        distribution = self.own(distribution)
        actions = distribution.sample()
        chosen = self._chosen(actions) * tf.expand_dims(distribution.log_probs(), axis=-2)
        return actions, self._of_branches(tf.reduce_sum(chosen, axis=-1))

    def expectation(
        self, distribution: Any, judge: Callable[[Any], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See ActionHead; exact."""
        log_probs = self.own(distribution).log_probs()
        value = self.mean_value(log_probs, judge(self.any_action(log_probs)))
        return value, self.mean_log_prob(log_probs)

    def mean_value(self, log_probs: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns the mean [...] of values [..., N] over all actions, and then over branches."""
        return tf.reduce_sum(tf.exp(log_probs) * values, axis=-1) / self.num_branches

    def any_action(self, like: tf.Tensor) -> tf.Tensor:
        """Returns some actions [...] for a tensor [..., N]."""
        batch = tf.shape(like)[:-1]
        start = tf.cast(self.start, self.action_spec.dtype)
        return tf.broadcast_to(start, tf.concat([batch, self.start.shape], axis=0))

    def mean_log_prob(self, log_probs: tf.Tensor) -> tf.Tensor:
        """Returns the mean log-probability of each part over all actions, from [..., N]."""
        weighted = tf.exp(log_probs) * log_probs
        sums = [tf.reduce_sum(of_one, axis=-1) for of_one in self.branches(weighted)]
        return self._of_branches(tf.stack(sums, axis=-1))

    def branches(self, of_all: tf.Tensor) -> list[tf.Tensor]:
        """Returns the values [..., n_i] of each branch from those of all actions [..., N]."""
        return [
            of_all[..., end - size : end] for end, size in zip(self._ends, self.sizes, strict=True)
        ]

    def critic_inputs(self, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead; returns [..., 0]."""
        num_batch_axes = len(action.shape) - self.start.ndim
        inputs = tf.zeros(tf.concat([tf.shape(action)[:num_batch_axes], [0]], axis=0))
        return tf.ensure_shape(inputs, [*action.shape[:num_batch_axes], 0])

    def as_vector(self, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead."""
        return tf.reduce_sum(self._chosen(action), axis=-2)

    def prediction(self, distribution: Any) -> tf.Tensor:
        """See ActionHead."""
        return self.own(distribution).logits

    def prediction_error(self, predicted: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead."""
        log_probs = self.categoricals(predicted).log_probs()
        return -tf.reduce_sum(self.as_vector(action) * log_probs, axis=-1)

    def taken(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """See ActionHead; returns the mean over branches."""
        return tf.reduce_sum(self.as_vector(action) * values, axis=-1) / self.num_branches

    def _chosen(self, action: tf.Tensor) -> tf.Tensor:
        """Returns 1 for the integer of each branch in `action`, otherwise 0: [..., K, N]."""
        index = tf.cast(action, tf.int64) - self.start
        if self.start.ndim == 0:
            index = index[..., tf.newaxis]
        return tf.one_hot(index + self._offsets, self.num_values)

    def _of_branches(self, log_prob: tf.Tensor) -> tf.Tensor:
        """Weights the log-probabilities of branches [..., K]; returns [...] for a single one."""
        if self.num_branches == 1:
            return tf.squeeze(log_prob, axis=-1)
        return log_prob * self.part_weights


class _CategoricalLayer(OutputLayer):
    """Features -> Categoricals; outputs are logits [..., N]."""

    def __init__(self, head: DiscreteHead):
        super().__init__(head.num_values, "categorical_head", "logits")
        self._head = head

    def of(self, outputs: tf.Tensor) -> Categoricals:
        return self._head.categoricals(outputs)

    def numpy_head(self) -> NumpyHead:
        return NumpyDiscreteHead(self._head)


class NumpyDiscreteHead:
    """The NumPy version; see NumpyHead. Actions are integers [] or [K]."""

    def __init__(self, head: DiscreteHead):
        """Copies the choices."""
        self.num_noises = self.num_choices = head.num_branches
        self._dtype = head.action_spec.dtype.as_numpy_dtype
        self._start, self._sizes = head.start, head.sizes
        self._ends = np.cumsum(head.sizes)[:-1]

    def masked(self, outputs: Floats, mask: NDArray[Any]) -> Floats:
        """See NumpyHead."""
        return np.where(mask, outputs, np.float32(FORBIDDEN))

    def greedy(self, outputs: Floats) -> Any:
        """See NumpyHead; the first of the most probable actions."""
        return self._action(
            [logits.argmax(-1) for logits in np.split(outputs, self._ends, axis=-1)]
        )

    def sample(self, outputs: Floats, noise: Floats) -> Any:
        """See NumpyHead; `noise` [K] is normal, so its distribution function is uniform."""
        if outputs.ndim == 2:
            return np.stack(list(map(self.sample, outputs, noise)))
        chosen = []
        for logits, normal in zip(np.split(outputs, self._ends), noise, strict=True):
            sums = np.cumsum(np.exp(logits - logits.max(), dtype=np.float64))
            uniform = 0.5 * (1.0 + math.erf(normal / math.sqrt(2.0)))
            # Below the sum, so that the choice has a probability above 0.
            chosen.append(sums.searchsorted(uniform * np.nextafter(sums[-1], 0), "right"))
        return self._action(chosen)

    def perturbed(self, outputs: Floats, noise: Floats) -> Any:
        """See NumpyHead; no deterministic actor has this head."""
        raise NotImplementedError("noise on discrete actions")

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Any]:
        """Returns `logits_kernel`, `logits_bias`, `sizes` [K] and `start` [] or [K].

        action = start + the index of the largest logit in each branch.
        """
        return {
            "logits_kernel": kernel, "logits_bias": bias, "sizes": self._sizes,
            "start": self._start.astype(self._dtype),
        }  # fmt: skip

    def _action(self, chosen: list[Any]) -> Any:
        branches = np.transpose(chosen)  # [K], or [B, K]
        shape = branches.shape[:-1] + self._start.shape
        return (self._start + branches.reshape(shape)).astype(self._dtype)
