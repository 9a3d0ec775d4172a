"""Reward signals: rewards in addition to the environment's.

The train step adds the rewards to replayed transitions, so they always come from the newest state
of the signal.
"""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from tfagents_system.agents.losses import valid_mean
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.transition import Transition, is_valid


class RewardSignal(Protocol):
    """A reward signal; a tf.Module, so that its variables are saved with the agent's."""

    name: str  # for metrics and messages
    strength: float  # weight of its reward
    variables: Sequence[tf.Variable]

    def reward(self, transition: Transition) -> tf.Tensor:
        """Returns the rewards of a minibatch, [B] or [B, T] float32, without the strength."""

    def train(self, transition: Transition) -> dict[str, tf.Tensor]:
        """Trains on a minibatch; returns scalars by name, such as the loss before the update."""


class RewardSignals(tf.Module):
    """All signals of a run.

    transition, metrics = signals(transition)   # in each train step
    """

    def __init__(self, signals: Sequence[RewardSignal]):
        """Takes signals with different names.

        Raises:
          ConfigError: If two have the same name, or one is not a tf.Module or lacks a part of
            RewardSignal.
        """
        super().__init__()
        self.signals = list(signals)
        for signal in self.signals:
            wanted = ("name", "strength", "variables", "reward", "train")
            missing = [name for name in wanted if not hasattr(signal, name)]
            if not isinstance(signal, tf.Module):  # checkpoints would lack its variables
                missing.insert(0, "the base class tf.Module")
            if missing:
                raise ConfigError(
                    f"TrainParams.reward_signals_ctor returned a {type(signal).__name__} without "
                    f"{', '.join(missing)}; expected a tf.Module like a RewardSignal, see "
                    "tfagents_system/rewards/signals.py."
                )
        if len(set(self.names)) < len(self.names):
            raise ConfigError(
                f"TrainParams.reward_signals_ctor returned signals called {', '.join(self.names)}; "
                "expected names that differ."
            )

    @property
    def names(self) -> list[str]:
        """Names of the signals."""
        return [signal.name for signal in self.signals]

    def __call__(self, transition: Transition) -> tuple[Transition, dict[str, tf.Tensor]]:
        """Returns the minibatch with the sum of all rewards, and metrics; then trains the signals.

        The sum has the environment's reward, plus each signal's before this training step, times
        its strength.
        """
        rewards = {signal.name: signal.reward(transition) for signal in self.signals}
        total = tf.add_n(
            [
                transition.reward,
                *(signal.strength * rewards[signal.name] for signal in self.signals),
            ]
        )
        valid = tf.cast(is_valid(transition), tf.float32)
        metrics = {f"{name}_reward": valid_mean(value, valid) for name, value in rewards.items()}
        with tf.control_dependencies([total]):
            for signal in self.signals:
                learned = signal.train(transition)
                metrics |= {f"{signal.name}_{name}": value for name, value in learned.items()}
        return transition._replace(reward=total), metrics
