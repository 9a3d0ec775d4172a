"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Returns " Did you mean X?" for the nearest allowed name; " Allowed: ..." if none is near."""
    candidates = sorted(allowed)
    nearest = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if nearest:
        return f" Did you mean {nearest[0]}?"
    return f" Allowed: {', '.join(candidates)}."
