"""Judges how the episodes of `sac check` ended: time limits, terminations, success."""

import collections
from collections.abc import Sequence

from tfagents_system.collection.rollouts import Episode
from tfagents_system.commands.checks.rows import Row

MIN_SUSPICIOUS = 3  # terminated episodes of equal length


def check_ends(
    episodes: Sequence[Episode], horizon: int, num_ends: int, ends_at_horizon: bool
) -> Row:
    """Judges the time limit.

    Args:
      episodes: The complete episodes.
      horizon: Env steps after which episodes are cut.
      num_ends: Last steps that were seen.
      ends_at_horizon: Whether the horizon is a termination (`time_aware`), not a time limit.
    """
    ends = collections.Counter((e.length, e.is_terminal) for e in episodes)
    if not ends:
        advice = "Workers cut episodes after the horizon, with discount 1, in any case."
        return Row("time limit", "note", "no episode ended while this looked", advice)
    lengths = sorted({length for length, _ in ends})
    num_terminal = sum(n for (_, is_terminal), n in ends.items() if is_terminal)
    limits = [length for length, is_terminal in ends if not is_terminal]
    is_meant = ends_at_horizon and lengths == [horizon]
    shown = f"{lengths[0]}" + (f" to {lengths[-1]}" if len(lengths) > 1 else "")
    value = (f"{len(episodes)} episodes of {shown} steps, {num_terminal} with discount 0 "
             f"at the end; the horizon is {horizon}")  # fmt: skip
    if not num_ends:
        value += ", which ended them all"
    if lengths == [1] and horizon > 1:
        advice = ("An episode is over after its first step: there is no future to learn of. If "
                  "the task is longer, look at what ends it.")  # fmt: skip
        return Row("time limit", "note", value, advice)
    is_suspicious = num_terminal >= MIN_SUSPICIOUS and not is_meant
    if is_suspicious and not limits and len(lengths) == 1 < lengths[0]:
        advice = (
            "All ended at one length with discount 0. If that is a time limit, its last step "
            "must have discount 1, or values are learned that are too low: "
            "docs/environments.md#time-limits. If the task ends there, all is well."
        )
        return Row("time limit", "note", value, advice)
    if any(length < horizon for length in limits):
        advice = (f"Set horizon to {max(limits)}: the replay buffer and iterations are counted "
                  "in episodes of horizon steps.")  # fmt: skip
        return Row("time limit", "note", value, advice)
    return Row("time limit", "ok", value)


def check_success(episodes: Sequence[Episode]) -> list[Row]:
    """Returns a row if the reported success cannot be read."""
    faults = [e.success_fault for e in episodes if e.success_fault]
    if not faults:
        return []
    return [Row("success", "note", faults[0], "Report True or False in the last step's info.")]
