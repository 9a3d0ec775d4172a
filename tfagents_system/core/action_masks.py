"""Reads action masks: the part of an observation that tells which integers an action may have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.leaves import without

ACTION_MASK = "action_mask"  # key of the observation's dict
FORBIDDEN = -1e9  # logit of a forbidden integer: its probability is 0, and gradients stay finite


def has_mask(observation: Any) -> bool:
    """Returns whether an observation, or its spec, is a dict with a mask."""
    return isinstance(observation, Mapping) and ACTION_MASK in observation


def without_mask(observation: Any) -> Any:
    """Returns an observation, or its spec, without its mask, if any: the networks' input."""
    return without(observation, [ACTION_MASK])


def input_spec(observation_spec: Any, action_spec_leaves: Sequence[Any]) -> Any:
    """Returns the spec of the networks' input: without the mask, if the action has integers."""
    return without_mask(observation_spec) if Choices(action_spec_leaves).sizes else observation_spec


class Choices:
    """The discrete choices in an action; a mask [N] has one entry per integer of each choice.

    Entries follow the order of the action's leaves and, within a leaf, of its branches.
    """

    def __init__(self, leaves: Sequence[Any]):
        """`leaves` are the specs of an action, in order, with shape, dtype and bounds."""
        self._places: list[tuple[int, int]] = []  # (leaf, branch)
        sizes, starts = [], []
        for index, leaf in enumerate(leaves):
            if not np.issubdtype(getattr(leaf.dtype, "as_numpy_dtype", leaf.dtype), np.integer):
                continue
            shape = tuple(leaf.shape)
            low, high = (
                np.ravel(np.broadcast_to(bound, shape)) for bound in (leaf.minimum, leaf.maximum)
            )
            for branch, (first, last) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                self._places.append((index, branch))
                starts.append(first)
                sizes.append(last - first + 1)
        self._starts = starts
        self._ends = np.cumsum(sizes).tolist()
        self.sizes = sizes

    @property
    def num_integers(self) -> int:
        """The length of a mask, N."""
        return sum(self.sizes)

    def branches(self, mask: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the mask of each branch, [n] each."""
        return [mask[end - size : end] for end, size in zip(self._ends, self.sizes, strict=True)]

    def without_choice(self, mask: NDArray[Any]) -> list[int]:
        """Returns the branches for which a mask allows no integer."""
        return [index for index, branch in enumerate(self.branches(mask)) if not branch.any()]

    def draw(self, leaves: Sequence[Any], mask: NDArray[Any], rng: np.random.RandomState) -> None:
        """Replaces the integers in `leaves`, arrays of an action, by random allowed ones."""
        self._replace(leaves, mask, lambda allowed: rng.choice(np.flatnonzero(allowed)))

    def take_first(self, leaves: Sequence[Any], mask: NDArray[Any]) -> None:
        """Replaces the integers in `leaves`, arrays of an action, by the first allowed ones."""
        self._replace(leaves, mask, np.argmax)

    def _replace(
        self, leaves: Sequence[Any], mask: NDArray[Any], choose: Callable[[NDArray[Any]], Any]
    ) -> None:
        branches = zip(self._places, self._starts, self.branches(mask), strict=True)
        for (leaf, branch), start, allowed in branches:
            leaves[leaf].reshape(-1)[branch] = start + choose(allowed)
