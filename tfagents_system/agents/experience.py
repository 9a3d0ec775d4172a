"""What is taken of a minibatch, and what is done to it."""

from collections.abc import Sequence

import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.data.frames import is_image
from tfagents_system.networks.image_encoders import random_shift


def valid_of(experience: trajectory.Transition, burn_in_len: int = 0) -> tf.Tensor:
    """Returns 1 for each transition that counts, 0 for padding and burn-in: [B] or [B, T] float32.

    The first `burn_in_len` transitions of a sequence only let the state of recurrent networks
    recover what was observed before, unless nothing was: the sequence begins an episode.
    Source: Kapturowski et al. 2019, Recurrent Experience Replay in Distributed Reinforcement
    Learning (R2D2), section 3.
    """
    step_type = experience.time_step.step_type
    valid = tf.not_equal(step_type, ts.StepType.LAST)
    if burn_in_len:
        is_past = tf.range(tf.shape(step_type)[1]) >= burn_in_len
        valid &= is_past | tf.equal(step_type[:, :1], ts.StepType.FIRST)
    return tf.cast(valid, tf.float32)


def initial_state(experience: trajectory.Transition) -> Sequence[tf.Tensor]:
    """Returns the state that was stored before each sequence, [B, units] each; or ()."""
    return [part[:, 0] for part in tf.nest.flatten(experience.action_step.info)] or ()


def next_steps(experience, is_sequence):
    """Returns the next steps [B]; of a sequence [B, T + 1], its first observation before them."""
    if not is_sequence:
        return experience.next_time_step
    first, following = experience.time_step, experience.next_time_step
    observation = tf.nest.map_structure(
        lambda o, next_o: tf.concat([o[:, :1], next_o], axis=1),
        first.observation,
        following.observation,
    )
    step_type = tf.concat([first.step_type[:, :1], following.step_type], axis=1)
    return ts.TimeStep(step_type, reward=(), discount=(), observation=observation)


def with_shifted_images(
    experience: trajectory.Transition, observation_spec, largest: int
) -> trajectory.Transition:
    """Shifts the images before and after each env step by up to `largest` pixels.

    Each on its own, but all of a sequence alike; arXiv:2004.13649.
    """
    seeds = tf.random.uniform([2, 2], maxval=tf.int32.max, dtype=tf.int32)

    def shifted(time_step, seed):
        observation = tf.nest.map_structure(
            lambda leaf, spec: random_shift(leaf, largest, seed) if is_image(spec) else leaf,
            time_step.observation,
            observation_spec,
        )
        return time_step._replace(observation=observation)

    is_sequence = experience.time_step.step_type.shape.rank == 2
    return experience._replace(
        time_step=shifted(experience.time_step, seeds[0]),
        next_time_step=shifted(experience.next_time_step, seeds[0 if is_sequence else 1]),
    )
