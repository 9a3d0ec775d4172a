"""Behavioral cloning alone: trains an agent's actor on demonstrations, without any reward."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.batch import split_masks
from tfagents_system.agents.cloning import Cloning
from tfagents_system.agents.optimizers import current
from tfagents_system.core.settings.behavioral_cloning import CloningSettings
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.demonstrations.rows import Rows
from tfagents_system.learning.held_samples import random_transitions, transitions_at

MOST_HELD_OUT = 4096  # samples for the held-out loss


class Imitation:
    """Trains an agent's actor, and its normalizer, on demonstrations.

        imitation = Imitation(agent, reader, rows, held_out, num_steps, batch_size)
        loss = imitation.train(100)
        other = imitation.held_out_loss()

    The learning rate falls linearly from the actor's to 0 over all train steps. The normalizers'
    statistics are those of all demonstrations that it trains on.
    """

    def __init__(
        self,
        agent: ActorCriticAgent,
        reader: SampleReader,
        demonstrations: Rows,
        held_out: Rows | None,
        num_steps: int,
        batch_size: int,
        burn_in_len: int = 0,
    ):
        """Computes the statistics; trains nothing yet.

        Args:
          agent: Its counter counts the train steps.
          reader: Unpacks the rows.
          demonstrations: Rows that the actor learns from.
          held_out: Rows that only `held_out_loss` uses.
          num_steps: Train steps until the learning rate is 0.
          batch_size: Samples in each minibatch.
          burn_in_len: See `make_batch`.
        """
        self._agent, self._reader, self._batch_size = agent, reader, batch_size
        columns, self._held_out = [*map(tf.constant, demonstrations.columns)], held_out
        self._learn_statistics(columns, demonstrations.starts)
        # The initial rate, which does not also fall over the train steps of a run.
        rate = float(current(agent.rule.actor_learning_rate))
        rule = dataclasses.replace(agent.rule, actor_learning_rate=rate)
        self._cloning = Cloning(
            agent.networks, rule, CloningSettings(1.0, num_steps), agent.train_step_counter,
            batch_size, burn_in_len, is_alone=True,
        )  # fmt: skip
        self._cloning.imitate(random_transitions(columns, demonstrations.starts, reader))
        self._train = tf.function(
            self._train_steps, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False
        )
        if held_out is not None:
            held_columns = [*map(tf.constant, held_out.columns)]
            self._loss_at = tf.function(
                lambda firsts: self._cloning.loss(transitions_at(held_columns, firsts, reader)),
                input_signature=[tf.TensorSpec([None], tf.int32)],
                autograph=False,
            )

    def train(self, num_steps: int) -> float:
        """Does train steps; returns the mean of their losses, each before its update."""
        return float(self._train(num_steps)) / num_steps

    def held_out_loss(self) -> float | None:
        """Returns the mean loss of at most 4,096 held-out samples; None if there are none.

        A stochastic policy samples the actions, as in training.
        """
        if self._held_out is None:
            return None
        starts = self._held_out.starts
        starts = starts[:: math.ceil(len(starts) / MOST_HELD_OUT)]
        losses = [len(part) * float(self._loss_at(part)) for part in self._parts(starts)]
        return sum(losses) / len(starts)

    def _train_steps(self, num_steps: tf.Tensor) -> tf.Tensor:
        def train_step(index: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            loss = self._cloning()
            self._agent.train_step_counter.assign_add(1)
            return index + 1, total + loss

        return tf.while_loop(
            lambda index, total: index < num_steps, train_step, (tf.constant(0), tf.constant(0.0))
        )[1]

    def _learn_statistics(self, columns: list[tf.Tensor], starts: NDArray[Any]) -> None:
        """Gives the normalizers the statistics of all samples."""
        networks = self._agent.networks
        for part in self._parts(starts):
            transition = transitions_at(columns, tf.constant(part), self._reader)
            transition, _ = split_masks(transition, networks.head)
            networks.update_statistics(networks.normalized(transition)[1])

    def _parts(self, starts: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Yields `starts` in parts of the size of a minibatch, so that memory suffices."""
        yield from np.split(starts, range(self._batch_size, len(starts), self._batch_size))
