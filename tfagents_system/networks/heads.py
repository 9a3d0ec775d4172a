"""Action heads: everything that depends on the kind of action space, one head for each kind."""

import abc
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest

Floats = NDArray[np.float32]


class NumpyHead(Protocol):
    """An actor's head in NumPy, for one env step, or for B at once.

    `outputs` [n] float32, or [B, n], are the outputs of the actor's last layer. All other arrays
    have the axis B if `outputs` does.
    """

    num_noises: int  # random numbers of mean 0 and variance 1 per random action; may be 0
    num_choices: int  # of these, the last ones, which choose integers

    def masked(self, outputs: Floats, mask: NDArray[Any]) -> Floats:
        """Returns `outputs` with FORBIDDEN for integers whose entry in `mask` [N] is 0."""

    def greedy(self, outputs: Floats) -> Any:
        """Returns the greedy action: the mode, or a deterministic actor's action."""

    def sample(self, outputs: Floats, noise: Floats) -> Any:
        """Returns a stochastic actor's action, determined by `noise` [num_noises]."""

    def perturbed(self, outputs: Floats, noise: Floats) -> Any:
        """Returns a deterministic actor's action with `noise`, within the bounds."""

    def arrays(self, kernel: Floats, bias: Floats) -> dict[str, Floats]:
        """Returns the arrays from which an exported model computes greedy actions, by name.

        `kernel` [features, n] and `bias` [n] belong to the last layer.
        """


class OutputLayer(tf.keras.layers.Layer, abc.ABC):
    """The last layer of an actor, with all variables that depend on the action space."""

    def __init__(self, num_outputs: int, name: str, projection_name: str):
        """Makes no variables yet."""
        super().__init__(name=name)
        self.projection = tf.keras.layers.Dense(num_outputs, name=projection_name)

    def call(self, features: tf.Tensor) -> Any:
        """Returns the actor's output for `features` [..., n]."""
        return self.of(self.projection(features))

    @abc.abstractmethod
    def of(self, outputs: tf.Tensor) -> Any:
        """Converts `outputs` [..., num_outputs] of the projection to the actor's output.

        It is a distribution over actions, or a deterministic actor's action.
        """

    @abc.abstractmethod
    def numpy_head(self) -> NumpyHead:
        """Returns the NumPy version of everything after the projection."""


class ActionHead(abc.ABC):
    """The properties of an action space for agents and networks; has no variables.

    The random actions of the initial fill do not come from here: `RandomPolicy` draws them from the
    specs of any environment, even if only a user's own agent supports its actions.
    """

    action_spec: Nest
    num_values: int  # outputs of each critic: 1, or one for each discrete action
    # An action has one part, or P: the continuous one and each choice among integers. Each has its
    # own temperature. Log-probabilities are [...], or [..., P]; their sum is the action's.
    vector_size: int  # of `as_vector`
    part_weights: float | Floats  # weight of each part's log-probability: 1, or [P]
    default_target_entropy: float | Floats  # in nats, [] or [P], times `part_weights`

    @abc.abstractmethod
    def output_layer(self, is_deterministic: bool) -> OutputLayer:
        """Returns a new last layer for an actor.

        Raises:
          ConfigError: If `is_deterministic`, and no gradient flows through such actions.
        """

    @abc.abstractmethod
    def masked(self, distribution: Any, mask: tf.Tensor) -> Any:
        """Returns an actor's distribution without the integers whose entry in `mask` is 0.

        `mask` is [..., N]; see core/action_masks.py.
        """

    def reachable_share(self, mask: tf.Tensor) -> Any:
        """Returns each part's largest entropy under `mask`, divided by that without: in [0, 1].

        It is [...], or [..., P]. For the continuous part it is 1, because masks do not affect it.
        """
        return 1.0

    @abc.abstractmethod
    def sample(self, distribution: Any) -> tuple[Any, tf.Tensor]:
        """Samples actions from an actor's distribution; returns them and their log-probabilities.

        The log-probabilities do not depend on the unit of the action.
        """

    @abc.abstractmethod
    def expectation(
        self, distribution: Any, judge: Callable[[Any], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the means, over the actor's actions, of their values [...] and log-probabilities.

        They may be estimated from one action. Gradients flow to the actor.

        Args:
          distribution: An actor's distribution over actions [..., A].
          judge: Returns the critics' values of actions. For discrete actions it returns the values
            of all at once, along the last axis: then actions are outputs of the critics, not
            inputs, and the argument of `judge` does not matter.
        """

    @abc.abstractmethod
    def critic_inputs(self, action: Any) -> tf.Tensor:
        """Returns the critics' inputs [..., m] for actions [..., A], in addition to observations.

        m is 0 if the critics' outputs are the values of all actions.
        """

    @abc.abstractmethod
    def as_vector(self, action: Any) -> tf.Tensor:
        """Returns actions [..., A] as numbers [..., vector_size].

        Actions of a Box are scaled to [-1, 1]; an integer is one-hot encoded.
        """

    @abc.abstractmethod
    def prediction(self, distribution: Any) -> tf.Tensor:
        """Returns an actor's prediction of an action, [..., vector_size], for `prediction_error`.

        Gradients flow to the actor. For a Box, it is a sampled or a deterministic actor's action,
        scaled to [-1, 1]; for an integer, logits.
        """

    @abc.abstractmethod
    def prediction_error(self, predicted: tf.Tensor, action: Any) -> tf.Tensor:
        """Returns the error [...] of `predicted` [..., vector_size] for actions [..., A].

        The squared errors of numbers and the cross-entropies of integers, whose logits are
        predicted, are summed.
        """

    @abc.abstractmethod
    def taken(self, values: tf.Tensor, action: Any) -> tf.Tensor:
        """Returns the value [...] of `action` from a critic's outputs for it.

        The outputs are that value [...], or the values [..., num_values] of all actions.
        """

    def alpha_metrics(self, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns scalar metrics of the temperatures of the parts, [] or [P]: their mean."""
        return {"alpha": tf.reduce_mean(alpha)}


def unsupported_action(action_spec: Nest) -> ConfigError:
    """Returns the error for an action space without a head."""
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
        f"The built-in agents cannot act in this environment: its action is {found}. Expected "
        "a Box: one floating point vector with finite bounds, minimum < maximum, such as "
        "gym.spaces.Box(-1, 1, (2,)); Discrete, MultiDiscrete or MultiBinary; or a Dict or Tuple "
        "of these. Wrap the environment in TrainParams.env_ctor, or return another one."
    )
