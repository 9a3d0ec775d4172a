"""Counts how often each choice of a discrete action is taken."""

from typing import Any

import numpy as np
import tree

from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.info_patterns import number_name
from tfagents_system.records.number_rows import ACTION_SHARE

MOST_CHOICES = 32  # of all branches; more would be as many lines of the record for each episode


class ActionShares:
    """Counts the choices of each branch in one episode.

    shares = ActionShares(action_spec)
    shares.add(action)   # in each env step
    shares.numbers   # {"action_share_0": 0.25, "action_share_1": 0.75}

    A name has the key of a leaf, the number of a branch, if there are several, and the integer. An
    action without integers, or with very many, has no shares.
    """

    def __init__(self, action_spec: Nest):
        """`action_spec` has the bounds of actions."""
        self._names: list[str] = []
        self._places: list[tuple[int, Any]] = []  # leaf, and what makes its integers places
        for leaf, (path, spec) in enumerate(tree.flatten_with_path(action_spec)):
            if not np.issubdtype(spec.dtype, np.integer):
                continue
            low, high = (
                np.ravel(np.broadcast_to(bound, spec.shape)).astype(np.int64)
                for bound in (spec.minimum, spec.maximum)
            )
            begins = len(self._names) + np.cumsum(high - low + 1) - (high - low + 1)
            self._places.append((leaf, begins - low))
            for branch in range(low.size):
                of_branch = [str(branch)] if low.size > 1 else []
                key = "_".join([ACTION_SHARE, *map(str, path), *of_branch])
                integers = range(low[branch], high[branch] + 1)
                self._names += [number_name(key, str(integer)) for integer in integers]
        if len(self._names) > MOST_CHOICES:
            self._places = []
        self._counts = np.zeros(len(self._names), np.int64)
        self._num_steps = 0

    def add(self, action: Any) -> None:
        """Counts the choices of an action."""
        if self._places:
            leaves = tree.flatten(action)
            for leaf, offsets in self._places:
                self._counts[np.ravel(leaves[leaf]) + offsets] += 1
            self._num_steps += 1

    @property
    def numbers(self) -> dict[str, float]:
        """The share of env steps with each choice, by name."""
        if not self._num_steps:
            return {}
        shares = self._counts / self._num_steps
        return dict(zip(self._names, shares.tolist(), strict=True))
