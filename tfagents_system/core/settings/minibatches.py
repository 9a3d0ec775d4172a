"""Computes how many samples of a minibatch each source provides."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfagents_system.core.errors import ConfigError

if TYPE_CHECKING:
    from tfagents_system.core.settings.training_settings import TrainingSettings

REPLAY, DEMONSTRATIONS = "replay", "demonstrations"  # the sources
ROUNDING = 1e-6  # tolerance of shares, and of samples


def is_demonstrations(value: Any) -> bool:
    """Returns whether `value` is allowed for the setting `demonstrations`."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(path, str) and path for path in value)
    return value is None or (isinstance(value, str) and bool(value))


def paths_of_demonstrations(value: str | Sequence[str] | None) -> list[str]:
    """Returns the paths in the value of `demonstrations`."""
    return [value] if isinstance(value, str) else list(value or ())


def trains_offline(settings: "TrainingSettings") -> bool:
    """Returns whether each minibatch has only demonstrations, and nothing is collected."""
    return settings.demonstration_share == 1


def samples_by_source(settings: "TrainingSettings") -> dict[str, int]:
    """Returns how many samples of a minibatch each source provides.

    Raises:
      ConfigError: If it is less than one.
    """
    has_others = settings.demonstrations or settings.keep_interventions
    share = settings.demonstration_share if has_others else 0
    shares = {REPLAY: 1 - share, DEMONSTRATIONS: share}
    used = {name: share for name, share in shares.items() if share}
    return split_minibatch(settings.train_batch_size, used)


def num_replay_samples(settings: "TrainingSettings") -> int:
    """Returns how many samples of a minibatch the replay buffer provides.

    For an offline run, as many as if it provided all: the layout of an item depends on it.
    """
    return samples_by_source(settings).get(REPLAY, settings.train_batch_size)


def num_fresh_samples(settings: "TrainingSettings") -> int:
    """Returns the number of new transitions or sequences per train step."""
    num_samples = num_replay_samples(settings)
    return min(settings.fresh_samples_per_step or num_samples, num_samples)


def num_samples_in_flight(settings: "TrainingSettings") -> int:
    """Returns the number of transitions or sequences that the learner requests ahead.

    A small number would be sent in small portions, each of which wakes up threads of both sides.
    """
    return settings.prefetch_batches * num_replay_samples(settings)


def split_minibatch(batch_size: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Returns how many of `batch_size` samples each source provides, by its share.

    The counts sum to `batch_size`. Each is the share rounded down, plus one for the sources with
    the largest remainders.

    Raises:
      ConfigError: If shares do not sum to 1, or one is less than one sample.
    """
    if abs(sum(shares.values()) - 1) > ROUNDING:
        raise ConfigError(
            f"The sources' shares of a minibatch are {dict(shares)}, which sum to "
            f"{sum(shares.values()):g}; expected shares that sum to 1."
        )
    exact = {name: batch_size * share for name, share in shares.items()}
    counts = {name: int(samples + ROUNDING) for name, samples in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: batch_size - sum(counts.values())]:
        counts[name] += 1
    for name, share in shares.items():
        if counts[name] < 1:
            raise ConfigError(
                f"The share of {name} in a minibatch is {share:g}, which is less than one sample "
                f"of {batch_size}. Raise the share or train_batch_size."
            )
    return counts


def check_minibatches(settings: "TrainingSettings", where: str) -> None:
    """Raises ConfigError for sources that cannot make the minibatches."""
    if trains_offline(settings) and not settings.demonstrations:
        raise ConfigError(
            f"{where}: demonstration_share is 1, and demonstrations is None: offline training has "
            "no data. Name them, as by sac train --offline DATASET."
        )
    try:
        samples_by_source(settings)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    if settings.keep_interventions and trains_offline(settings):
        raise ConfigError(
            f"{where}: keep_interventions is True and demonstration_share is 1; expected "
            "keep_interventions = False: offline, nobody acts, so nobody can take over."
        )
    if settings.keep_interventions and not settings.demonstration_share:
        raise ConfigError(
            f"{where}: keep_interventions is True and demonstration_share is 0, so that none would "
            "be drawn; expected a demonstration_share above 0, such as 0.5."
        )
    if settings.n_step_returns == 1:
        return
    if settings.recurrent:
        raise ConfigError(
            f"{where}: n_step_returns is {settings.n_step_returns} and recurrent is True; "
            "sequences need n_step_returns = 1."
        )
    num_samples = num_replay_samples(settings)
    if num_fresh_samples(settings) == num_samples:
        is_all = num_samples == settings.train_batch_size
        part = "train_batch_size" if is_all else "the rest of train_batch_size"
        raise ConfigError(
            f"{where}: n_step_returns is {settings.n_step_returns}, but fresh_samples_per_step "
            f"({settings.fresh_samples_per_step}) is not below {part} ({num_samples}). Returns "
            "over several steps need the learner's pool, so set fresh_samples_per_step to a "
            "smaller number."
        )
