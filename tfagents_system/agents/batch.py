"""Converts replayed transitions to batches for the losses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.reward_scale import ReturnStatistics, RewardScale
from tfagents_system.core.action_masks import ACTION_MASK, has_mask, without_mask
from tfagents_system.core.nests import Nest
from tfagents_system.data.images import is_image, layout_of, side_axes
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.networks.heads import ActionHead
from tfagents_system.networks.image_encoders import random_shift
from tfagents_system.networks.normalizer import Normalizer, Statistics


class Steps(NamedTuple):
    """The inputs of networks, [B, ...] or [B, T, ...]."""

    observation: Any
    step_type: tf.Tensor  # int32
    mask: Any = ()  # of the integers of actions, [..., N]; see core/action_masks.py


class Batch(NamedTuple):
    """A minibatch of transitions [B, ...], or of sequences [B, T, ...]."""

    steps: Steps  # before each action
    action: tf.Tensor
    reward: tf.Tensor  # of several streams [S, ...], as the discount
    discount: tf.Tensor  # 0 only after a true termination
    next_steps: Steps  # inputs for the targets; for recurrent networks [B, T + 1]
    valid: tf.Tensor  # float32: 1 for valid transitions, 0 for padding and burn-in
    state: Sequence[tf.Tensor]  # stored before each sequence, [B, units] each; or ()
    has_first_step: bool  # whether `next_steps` include the first of `steps`

    def of_next(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns values at `next_steps` without the first step."""
        return [value[:, 1:] for value in values] if self.has_first_step else list(values)


class Masks(NamedTuple):
    """The masks of actions before and after each env step, [..., N], or ()."""

    before: Any = ()
    after: Any = ()


NO_MASKS = Masks()


def split_masks(transition: Transition, head: ActionHead) -> tuple[Transition, Masks]:
    """Splits the masks, if any, off the observations of `transition`; returns both."""
    observations = transition.observation, transition.next_observation
    if head.num_values == 1 or not has_mask(observations[0]):
        return transition, NO_MASKS
    masks = Masks(*(observation[ACTION_MASK] for observation in observations))
    observation, next_observation = map(without_mask, observations)
    transition = transition._replace(observation=observation, next_observation=next_observation)
    return transition, masks


def make_batch(
    transition: Transition, is_recurrent: bool, burn_in_len: int, masks: Masks = NO_MASKS
) -> Batch:
    """Returns `transition` as a batch for the losses.

    To evaluate s_{t+1}, a recurrent network needs the state after s_0 .. s_t, so its `next_steps`
    include the first observation.

    Args:
      transition: A minibatch; a step type LAST marks padding.
      is_recurrent: Whether the networks have a state.
      burn_in_len: Transitions at the beginning of a sequence that only warm up the state of
        recurrent networks, unless the sequence begins an episode. Source: Kapturowski et al. 2019,
        Recurrent Experience Replay in Distributed Reinforcement Learning (R2D2), section 3.
      masks: Masks of the actions.
    """
    step_type = tf.cast(transition.step_type, tf.int32)
    valid = tf.not_equal(step_type, ts.StepType.LAST)
    if burn_in_len:
        is_past = tf.range(tf.shape(step_type)[1]) >= burn_in_len
        valid &= is_past | tf.equal(step_type[:, :1], ts.StepType.FIRST)
    # Only the discount tells whether an episode ended.
    next_type = tf.fill(tf.shape(step_type), ts.StepType.MID)
    next_steps = Steps(transition.next_observation, next_type, masks.after)
    steps = Steps(transition.observation, step_type, masks.before)
    return Batch(
        steps,
        transition.action,
        transition.reward,
        transition.discount,
        with_first_step(steps, next_steps) if is_recurrent else next_steps,
        tf.cast(valid, tf.float32),
        [part[:, 0] for part in tf.nest.flatten(transition.extras)] or (),
        is_recurrent,
    )


def normalized(transition: Transition, normalizer: Normalizer) -> tuple[Transition, Statistics]:
    """Normalizes `transition` by the statistics that include it; returns both."""
    statistics = normalizer.merged(transition.observation, is_valid(transition))
    observations = transition.observation, transition.next_observation
    observation, next_observation = (
        normalizer.normalized(part, statistics) for part in observations
    )
    transition = transition._replace(observation=observation, next_observation=next_observation)
    return transition, statistics


def with_scaled_rewards(
    transition: Transition, scale: RewardScale
) -> tuple[Transition, ReturnStatistics]:
    """Scales the rewards of `transition` by the statistics that include it; returns both."""
    statistics = scale.merged(transition.return_so_far, is_valid(transition))
    return transition._replace(reward=scale.scaled(transition.reward, statistics)), statistics


def with_first_step(steps: Steps, next_steps: Steps) -> Steps:
    """Returns `next_steps` [B, T + 1] including the first of `steps`."""
    return tf.nest.map_structure(
        lambda part, next_part: tf.concat([part[:, :1], next_part], axis=1), steps, next_steps
    )


def with_shifted_images(transition: Transition, observation_spec: Nest, largest: int) -> Transition:
    """Shifts the images before and after each env step by up to `largest` pixels.

    The observations before and after each env step are shifted differently; all images of one
    observation, and of one sequence, get the same shift; arXiv:2004.13649.
    """
    seeds = tf.random.uniform([2, 2], maxval=tf.int32.max, dtype=tf.int32)

    def shifted(observation: Nest, seed: tf.Tensor) -> Nest:
        return tf.nest.map_structure(
            lambda leaf, spec: (
                random_shift(leaf, largest, seed, side_axes(layout_of(spec)))
                if is_image(spec)
                else leaf
            ),
            observation,
            observation_spec,
        )

    is_sequence = transition.step_type.shape.rank == 2
    return transition._replace(
        observation=shifted(transition.observation, seeds[0]),
        next_observation=shifted(transition.next_observation, seeds[0 if is_sequence else 1]),
    )
