"""The update rule of an agent's networks, and its optimizer, Adam."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
from tf_agents.networks import network

LearningRate = float | Callable[[], Any]
Optimizer: TypeAlias = tf.keras.optimizers.Optimizer


class Gradients(NamedTuple):
    """Gradients of each network's variables, not clipped; empty where there is no network."""

    critics: Sequence[Sequence[tf.Tensor]]
    summarizer: list[tf.Tensor]
    state_value: list[tf.Tensor]
    actor: list[tf.Tensor]  # zeros, like the next, in a step that does not update the actor
    log_alpha: list[tf.Tensor]
    actor_moments: Sequence[Any]  # in every step, like all below
    critics_moments: Sequence[Any]
    statistics: list[Any]  # the normalizers' new statistics; see Networks.normalized


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """The update rule of an agent's networks."""

    actor_learning_rate: LearningRate = 3e-4  # Adam's, or a function without arguments
    critic_learning_rate: LearningRate = 3e-4
    adam_beta_1: float = 0.9
    gradient_clipping: float | None = None  # largest global norm per network
    policy_delay: int = 1  # train steps of the critics for each of actor and temperature
    target_update_tau: float = 0.005  # weight of a network in updates of its target, in (0, 1]
    target_update_period: int = 1  # train steps
    delays_targets: bool = False  # whether target networks are updated only with the actor
    has_unit_weights: bool = False  # whether the incoming weights of each unit keep norm 1

    def normalize_weights(self, networks: Sequence[network.Network]) -> None:
        """Divides the incoming weights of each unit by their norm, if the rule has unit weights.

        Applies to networks that have `kernels`, [inputs, units] each.
        """
        for net in networks if self.has_unit_weights else ():
            for kernel in getattr(net, "kernels", ()):  # a user's own network may have none
                kernel.assign(tf.math.l2_normalize(kernel, axis=0))


def current(learning_rate: LearningRate) -> tf.Tensor:
    """Returns the learning rate of this train step, float32 []."""
    return tf.convert_to_tensor(learning_rate() if callable(learning_rate) else learning_rate)


def make_adam(
    learning_rate: LearningRate, variables: Sequence[tf.Variable], beta_1: float = 0.9
) -> Optimizer:
    """Returns Adam for `variables`, with its moments created; `beta_1` decays the first moment."""
    # The legacy optimizer has a fused kernel per variable. It gets a function, because a number
    # would be saved, and restored in place of a changed setting.
    step_size = learning_rate if callable(learning_rate) else lambda: learning_rate
    optimizer = tf.keras.optimizers.legacy.Adam(step_size, beta_1=beta_1)
    _create_moments(optimizer, variables)
    return optimizer


def _create_moments(optimizer: Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Creates Adam's variables by a train step with zero gradients, which changes nothing else.

    Otherwise the train step's function would create them at its first call, and be traced twice.
    """
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    optimizer.iterations.assign(0)
