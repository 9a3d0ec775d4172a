"""Suggests names for misspelt ones."""

import difflib
from collections.abc import Iterable


def nearest_name(name: str, allowed: Iterable[str]) -> str | None:
    """Returns the allowed name that `name` is most like; None if none is near."""
    nearest = difflib.get_close_matches(name, sorted(allowed), n=1, cutoff=0.6)
    return nearest[0] if nearest else None


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Returns " Did you mean X?" for the nearest allowed name; " Allowed: ..." if none is near."""
    candidates = sorted(allowed)
    if nearest := nearest_name(name, candidates):
        return f" Did you mean {nearest}?"
    return f" Allowed: {', '.join(candidates)}."
