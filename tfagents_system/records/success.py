"""Counts the successes that environments have reported. No other module does so."""

from collections.abc import Sequence


def counted(successes: Sequence[bool | None], has_been_seen: bool = False) -> list[bool | None]:
    """Returns the successes of episodes; an episode without a report counts as a failure.

    Some environments report only successes. All are None if no episode reports anything.

    Args:
      successes: As reported by the environment.
      has_been_seen: Whether another episode has reported success or failure.
    """
    if not has_been_seen and all(success is None for success in successes):
        return list(successes)
    return [bool(success) for success in successes]


def success_rate(successes: Sequence[bool | None], has_been_seen: bool = False) -> float | None:
    """Returns the share of successes, 0 to 1, with episodes as in `counted`; None if unknown."""
    known = [success for success in counted(successes, has_been_seen) if success is not None]
    return sum(known) / len(known) if known else None  # exactly 1 if all have succeeded
