"""What is kept of a train step that gave numbers that are not finite."""

import io
import pathlib
from typing import Any

import numpy as np
import tree

from tfagents_system.core.disk import SpaceGuard
from tfagents_system.core.files import write_bytes_atomically
from tfagents_system.core.reporting import OnlyReports


def keep_minibatch(minibatch: Any | None, path: pathlib.Path) -> str:
    """Writes the leaves of `minibatch` to `path` (.npz); returns what to tell the user."""
    if minibatch is None:
        return "Its minibatch is not known"
    leaves = tree.flatten_with_path(minibatch)
    arrays = io.BytesIO()
    np.savez(arrays, **{"/".join(map(str, where)): leaf for where, leaf in leaves})
    guard = SpaceGuard("minibatch", path.parent, lambda: arrays.tell())
    with OnlyReports("minibatch"), guard:
        write_bytes_atomically(path, arrays.getvalue())
        return f"Its minibatch is in {path}: look for extreme rewards and observations"
    return "Its minibatch could not be written"
