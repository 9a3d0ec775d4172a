"""Handles divergence: keeps the minibatch, and removes the items that caused it."""

import io
import pathlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tree

from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import write_bytes_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.data.transition import Transition
from tfagents_system.learning.train_loop import LARGEST_METRIC

SUSPICIOUS_VALUE = LARGEST_METRIC**0.5  # its square alone counts as divergence
MOST_NAMED = 5
MOST_REMOVED = 64  # if there are more, they are normal for this environment


class DivergedError(Exception):
    """A train step resulted in numbers that are not finite, or too large."""

    def __init__(
        self,
        metrics: Mapping[str, float],
        minibatch: Transition | None,
        keys: Collection[int] = (),
    ):
        """Takes the metrics and the minibatch of the last train step, if known.

        `keys` are the replay table's keys of items with suspicious numbers.
        """
        bad = [f"{name} {value:g}" for name, value in metrics.items() if not is_sane(value)]
        super().__init__(", ".join(bad) or "a variable of the agent is not finite")
        self.minibatch = minibatch
        self.keys = keys


def is_sane(metric: float) -> bool:
    """Returns whether a metric is below LARGEST_METRIC; False for NaN."""
    return abs(metric) < LARGEST_METRIC


def suspicious_samples(minibatch: Any) -> dict[int, str]:
    """Returns the samples that may have caused divergence, and their largest number by name.

    Returns none if there are too many: then they are normal, and removing them would not help.
    """
    found: dict[int, str] = {}
    for where, leaf in tree.flatten_with_path(minibatch):
        array = np.asarray(leaf)
        if array.dtype.kind != "f":
            continue
        array = array.reshape(len(array), -1)
        for sample in np.flatnonzero(~(np.abs(array) < SUSPICIOUS_VALUE).all(1)).tolist():
            worst = array[sample][~(np.abs(array[sample]) < SUSPICIOUS_VALUE)][0]
            found.setdefault(sample, f"{'/'.join(map(str, where))} {worst:g}")
    return found if len(found) <= MOST_REMOVED else {}


def removes_cause(
    error: DivergedError,
    train_step: int,
    paths: ExperimentPaths,
    discard_items: Callable[[Collection[int]], int] | None,
) -> bool:
    """Saves the minibatch and removes its suspicious items; returns whether that was possible.

    Prints the result, or what the user can do.

    Args:
      error: The train step's error.
      train_step: The train step's number.
      paths: Paths of the experiment.
      discard_items: Removes items of the replay buffer by their keys and returns their number; None
        if training must not continue.
    """
    kept = keep_minibatch(error.minibatch, paths.diverged(train_step))
    text = f"training diverged at train step {train_step}: {error}. {kept}."
    if discard_items is not None and error.keys:
        try:
            num_removed = discard_items(error.keys)
        except Exception as failure:  # exceptions of the server or the disk
            text += f" Its items could not be removed from the replay buffer: {failure!r}."
        else:
            values = list(suspicious_samples(error.minibatch).values())
            more = f" and {len(values) - MOST_NAMED} more" if len(values) > MOST_NAMED else ""
            print(f"{text} {num_removed} items of the replay buffer are removed for good, because "
                  f"the minibatch has {', '.join(values[:MOST_NAMED])}{more}. Training resumes "
                  "from the last checkpoint; a second time would end it.", flush=True)  # fmt: skip
            return True
    print(f"sac_train.py: {text} Nothing since the last checkpoint was saved. Lower the learning "
          f"rates or set gradient_clipping in {paths.params}, and start the same command again.",
          file=sys.stderr)  # fmt: skip
    return False


def keep_minibatch(minibatch: Any | None, path: pathlib.Path) -> str:
    """Writes the leaves of `minibatch` to `path` (.npz); returns a message for the user."""
    if minibatch is None:
        return "Its minibatch is not known"
    leaves = tree.flatten_with_path(minibatch)
    arrays = io.BytesIO()
    np.savez(arrays, **{leaf_name(*where): leaf for where, leaf in leaves})
    guard = SpaceGuard("minibatch", path.parent, lambda: arrays.tell())
    with OnlyReports("minibatch"), guard:
        write_bytes_atomically(path, arrays.getvalue())
        return f"Its minibatch is in {path}: look for extreme rewards and observations"
    return "Its minibatch could not be written"
