"""Reward streams: separate rewards, each with its own discount and critic values."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfagents_system.agents.losses import valid_mean
from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.reward_signals import EXTRINSIC, StreamSettings
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.environments.time_left import is_used_up
from tfagents_system.rewards.gail import Gail
from tfagents_system.rewards.signals import RewardSignal, RewardSignals


class EnvironmentSignal(tf.Module):
    """The signal of the environment's rewards."""

    def __init__(self, strength: float):
        """Takes the factor of the rewards."""
        super().__init__(name=EXTRINSIC)
        self.strength = strength

    def reward(self, transition: Transition) -> tf.Tensor:
        """Returns the rewards of a minibatch."""
        return transition.reward

    def train(self, transition: Transition) -> dict[str, tf.Tensor]:
        """Learns nothing."""
        return {}


class RewardStreams(tf.Module):
    """The signals of all streams of a run.

    transition, metrics = streams(transition)   # in each train step
    """

    def __init__(
        self,
        settings: Sequence[StreamSettings],
        signals: Sequence[RewardSignal],
        inputs_of: Callable[[Nest], Nest],
        added: RewardSignals | None = None,
        time_aware: bool = False,
    ):
        """Takes the parts.

        Args:
          settings: The settings of each stream, sorted by name.
          signals: The signal of each stream.
          inputs_of: Returns the input of networks for an observation.
          added: Signals whose rewards are added to the environment's.
          time_aware: Whether the horizon ends the returns of all streams.
        """
        super().__init__()
        self.signals = {signal.name: signal for signal in signals}  # saved by name
        self.added = added
        self._settings = list(settings)
        self._inputs_of = inputs_of
        self._time_aware = time_aware

    @property
    def names(self) -> list[str]:
        """Names of all signals."""
        return [*self.signals, *(self.added.names if self.added else ())]

    def imitate(self, draw: Callable[[tf.Tensor], Transition]) -> None:
        """Shows the expert to the signals that imitate; see `Gail.imitate`."""
        for signal in self.signals.values():
            if isinstance(signal, Gail):
                signal.imitate(lambda count: self._as_seen(draw(count)))

    def _as_seen(self, transition: Transition) -> Transition:
        """Returns `transition` with observations as networks take them."""
        return transition._replace(
            observation=self._inputs_of(transition.observation),
            next_observation=self._inputs_of(transition.next_observation),
        )

    def __call__(self, transition: Transition) -> tuple[Transition, dict[str, tf.Tensor]]:
        """Returns the minibatch with [S, ...] rewards and discounts, and metrics; then trains.

        The rewards are those before this training step, times the strength of their signal.
        """
        metrics: dict[str, tf.Tensor] = {}
        if self.added is not None:
            transition, metrics = self.added(transition)
        seen = self._as_seen(transition)
        valid = tf.cast(is_valid(transition), tf.float32)
        rewards = {name: signal.reward(seen) for name, signal in self.signals.items()}
        metrics |= {f"{name}_reward": valid_mean(reward, valid) for name, reward in rewards.items()}
        strong = tf.stack([s.strength * rewards[name] for name, s in self.signals.items()])
        endless = tf.ones_like(transition.discount)
        if self._time_aware:
            is_over = is_used_up(transition.next_observation)
            endless = tf.where(is_over, transition.discount, endless)
        discounts = tf.stack(
            [transition.discount if s.use_terminal_states else endless for s in self._settings]
        )
        with tf.control_dependencies([strong]):
            for signal, learning in self.signals.items():
                learned = learning.train(seen)
                metrics |= {f"{signal}_{name}": value for name, value in learned.items()}
        return transition._replace(reward=strong, discount=discounts), metrics
