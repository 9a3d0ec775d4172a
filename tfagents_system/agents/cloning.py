"""Behavioral cloning: an actor learns to act as in demonstrations.

The loss sums, over the parts of an action, the squared error of an action that the policy samples,
scaled to [-1, 1], and the cross entropy of each choice among integers.

Source: behavioral cloning in Unity's ML-Agents, which also uses a separate optimizer whose learning
rate decays to 0. Adam divides gradients by their size: with one optimizer for both losses, the
weight of one would count for little, and its moments would linger in the other's updates.
"""

from collections.abc import Callable

import tensorflow as tf

from tfagents_system.agents.batch import make_batch, split_masks
from tfagents_system.agents.losses import valid_mean
from tfagents_system.agents.networks import Networks, act_of, summarized
from tfagents_system.agents.optimizers import UpdateRule, current, make_adam
from tfagents_system.core.settings.behavioral_cloning import CloningSettings
from tfagents_system.data.transition import Transition


class Cloning(tf.Module):
    """Trains an agent's actor on demonstrations, beside the agent's own train steps or alone.

        cloning.imitate(draw)
        loss = cloning()                        # once after each train step

    Its variables, Adam's moments, are saved with the agent's. Its learning rate after t train steps
    is the actor's times strength (1 - t / steps), and at least 0.
    """

    def __init__(
        self,
        networks: Networks,
        rule: UpdateRule,
        settings: CloningSettings,
        train_step: tf.Variable,
        batch_size: int,
        burn_in_len: int = 0,
        is_alone: bool = False,
    ):
        """Creates the optimizer; `imitate` must follow before it is trained.

        Args:
          networks: The agent's networks.
          rule: The agent's update rule; its learning rate, clipping and norms apply here, too.
          settings: Strength and duration.
          train_step: The agent's counter of train steps.
          batch_size: Samples in each minibatch.
          burn_in_len: See `make_batch`.
          is_alone: Whether cloning trains the summarizer, if any, because no critic does.
        """
        super().__init__()
        self._networks, self._rule, self._burn_in_len = networks, rule, burn_in_len
        self._settings, self._train_step, self._batch_size = settings, train_step, batch_size
        self._trained = list(networks.actor.trainable_variables)
        if is_alone and networks.summarizer is not None:
            self._trained += networks.summarizer.trainable_variables
        self._draw: Callable[[tf.Tensor], Transition] | None = None
        self.optimizer = make_adam(self._learning_rate, self._trained, rule.adam_beta_1)

    def imitate(self, draw: Callable[[tf.Tensor], Transition]) -> None:
        """Sets the function that draws n samples from the demonstrations."""
        self._draw = draw

    def __call__(self) -> tf.Tensor:
        """Updates the actor, unless the learning rate has become 0; returns the loss, or 0."""
        draw = self._draw
        assert draw is not None, "imitate comes first"
        return tf.cond(
            self._train_step < self._settings.steps,
            lambda: self.train(draw(tf.constant(self._batch_size))),
            lambda: tf.constant(0.0),
        )

    def _learning_rate(self) -> tf.Tensor:
        left = 1.0 - tf.cast(self._train_step, tf.float32) / self._settings.steps
        weight = self._settings.strength * tf.maximum(left, 0.0)
        return weight * current(self._rule.actor_learning_rate)

    def loss(self, transition: Transition) -> tf.Tensor:
        """Returns the mean loss over the valid env steps of [B, ...] or [B, T, ...]."""
        networks = self._networks
        transition, masks = split_masks(transition, networks.head)
        if (normalizer := networks.normalizer) is not None:
            observations = transition.observation, transition.next_observation
            before, after = map(normalizer, observations)
            transition = transition._replace(observation=before, next_observation=after)
        batch = make_batch(transition, networks.is_recurrent, self._burn_in_len, masks)
        batch = summarized(networks, batch)
        predicted = networks.head.prediction(act_of(networks, batch.steps, batch.state))
        error = networks.head.prediction_error(predicted, batch.action)
        return valid_mean(error, batch.valid)

    def train(self, transition: Transition) -> tf.Tensor:
        """Updates the actor once; returns the loss before the update."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._trained)
            loss = self.loss(transition)
        gradients = tape.gradient(loss, self._trained, unconnected_gradients="zero")
        if self._rule.gradient_clipping is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._rule.gradient_clipping)
        pairs = zip(gradients, self._trained, strict=True)
        self.optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
        self._rule.normalize_weights([self._networks.actor])
        return loss
