"""The base class of the built-in signals that learn."""

import abc
from collections.abc import Sequence

import tensorflow as tf

from tfagents_system.agents.optimizers import make_adam
from tfagents_system.data.transition import Transition


class LearnedSignal(tf.Module, abc.ABC):
    """A signal whose networks Adam trains; it pays nothing before its first train step."""

    def __init__(self, name: str, strength: float):
        """Takes the name and the factor of the rewards; `_start` must follow."""
        super().__init__(name=name)
        self.strength = strength
        self.has_learned = tf.Variable(0.0, trainable=False, name="has_learned")

    def _start(self, learning_rate: float, trained: Sequence[tf.Variable]) -> None:
        """Makes the optimizer of the variables that are trained."""
        self._trained = list(trained)
        self.optimizer = make_adam(learning_rate, self._trained)

    def reward(self, transition: Transition) -> tf.Tensor:
        """Returns the rewards of a minibatch, without the strength."""
        return self.has_learned * self.judged(transition)

    def train(self, transition: Transition) -> dict[str, tf.Tensor]:
        """Does a train step; returns the losses before it, by name."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._trained)
            loss, metrics = self.losses(transition)
        gradients = tape.gradient(loss, self._trained)
        pairs = zip(gradients, self._trained, strict=True)
        self.optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
        self.has_learned.assign(1.0)
        return metrics

    @abc.abstractmethod
    def judged(self, transition: Transition) -> tf.Tensor:
        """Returns what the networks pay for a minibatch, [B] or [B, T]."""

    @abc.abstractmethod
    def losses(self, transition: Transition) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the loss [] to minimize, and its parts by name."""
