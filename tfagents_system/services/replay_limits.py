"""The replay server's limits: its size, and the ratio of samples to inserts."""

import dataclasses
import math
import pathlib
from fractions import Fraction

import reverb

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.minibatches import num_fresh_samples, num_samples_in_flight
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.services.replay_files import copy_with_table, read_table

NO_RATIO = 1e12  # samples that either side may be ahead


@dataclasses.dataclass(frozen=True)
class ReplayLimits:
    """The sizes and the ratio of the experience table, in items of an ItemLayout."""

    capacity: int
    min_size: int  # items before the first sample
    samples_per_insert: float
    error_buffer: float  # samples that collection or learning may be ahead of the ratio
    workers_wait: bool = True  # if False, collection may be ahead without limit

    @classmethod
    def from_settings(
        cls, settings: TrainingSettings, horizon: int, layout: ItemLayout
    ) -> "ReplayLimits":
        """Derives the limits from full episodes of `horizon` env steps.

        The server counts items. With full episodes the ratio of train steps to env steps is exact.
        In blocks, each episode has `frame_stack` rows that begin no transition, so episodes that
        end after t steps cause (1 + frame_stack / t) / (1 + frame_stack / horizon) times as many
        train steps per env step.

        Collection and learning may each be ahead by one iteration. The learner's samples in flight
        must fit into that, or both sides would wait for each other for ever. With `update_ratio`
        "auto" the ratio is the maximum, and only learning waits.

        Raises:
          ConfigError: If the initial episodes are fewer than the samples in flight.
        """
        per_episode = layout.items_per_episode(horizon)
        num_fresh = num_fresh_samples(settings)
        samples_per_iteration = num_fresh * settings.num_steps_per_iter
        episodes_per_iteration: float = settings.n_train_episodes_per_iter
        if is_auto := settings.update_ratio == "auto":
            episodes_per_iteration = settings.num_steps_per_iter / (
                settings.max_update_ratio * horizon
            )
        samples_per_insert = float(
            samples_per_iteration / layout.samples / (per_episode * episodes_per_iteration)
        )
        num_initial = per_episode * settings.n_buffer_init_episodes
        in_flight = num_samples_in_flight(settings) + 2 * num_fresh  # and batches made from them
        ahead = max(samples_per_iteration, in_flight) / layout.samples
        min_size = math.ceil(num_initial)  # at least the samples in flight
        smallest = math.ceil(in_flight * Fraction(episodes_per_iteration) / samples_per_iteration)
        if settings.n_buffer_init_episodes < smallest:
            raise ConfigError(
                f"n_buffer_init_episodes = {settings.n_buffer_init_episodes} is too small: "
                f"{float(num_initial * layout.samples):g} steps x {samples_per_insert:g} samples "
                f"per insert is less than the {in_flight} samples that the learner keeps in flight "
                f"(prefetch_batches x train_batch_size + 2 x the smaller of train_batch_size and "
                f"fresh_samples_per_step). Use at least {smallest}."
            )
        return cls(
            capacity=math.ceil(per_episode * settings.n_episodes_in_buffer),
            min_size=min_size,
            samples_per_insert=samples_per_insert,
            error_buffer=min(max(ahead, samples_per_insert, 1.0), samples_per_insert * min_size),
            workers_wait=not is_auto,
        )

    @property
    def range_of_difference(self) -> tuple[float, float]:
        """The range of inserted items x ratio - samples; a side waits at its end."""
        middle = self.samples_per_insert * self.min_size
        most = middle + self.error_buffer if self.workers_wait else NO_RATIO
        return middle - self.error_buffer, most

    def rate_limiter(self) -> reverb.rate_limiters.RateLimiter:
        """Returns the rate limiter of the experience table."""
        return reverb.rate_limiters.RateLimiter(
            self.samples_per_insert, self.min_size, *self.range_of_difference
        )


def checkpoint_with_limits(
    checkpoint: pathlib.Path, table_name: str, limits: ReplayLimits, copy: pathlib.Path
) -> pathlib.Path:
    """Returns `checkpoint`, or, if it has other limits, a copy in the folder `copy` with `limits`.

    Otherwise Reverb would silently keep the checkpoint's limits.
    """
    table = read_table(checkpoint, table_name)
    limiter = table.rate_limiter
    saved = ReplayLimits(
        capacity=table.max_size,
        min_size=limiter.min_size_to_sample,
        samples_per_insert=limiter.samples_per_insert,
        error_buffer=limiter.min_size_to_sample * limiter.samples_per_insert - limiter.min_diff,
        workers_wait=limiter.max_diff < NO_RATIO,
    )
    pairs = zip(dataclasses.asdict(saved).items(), dataclasses.astuple(limits), strict=True)
    differences = [
        f"{name} {before:g} in the checkpoint, {now:g} now"
        for (name, before), now in pairs
        if not math.isclose(before, now, rel_tol=1e-6)
    ]
    if not differences:
        return checkpoint
    print(f"The limits of the replay buffer, in items, have changed: {'; '.join(differences)}.")
    table.max_size = limits.capacity
    limiter.min_size_to_sample = limits.min_size
    limiter.samples_per_insert = limits.samples_per_insert
    limiter.min_diff, limiter.max_diff = limits.range_of_difference
    # As many samples as by the new ratio, so that neither side has to catch up.
    num_counted = limiter.insert_count - limits.min_size
    limiter.sample_count = max(0, round(num_counted * limits.samples_per_insert))
    copy_with_table(checkpoint, copy, table)
    return copy
