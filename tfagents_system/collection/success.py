"""Reads the success that environments report. No other module does."""

from collections.abc import Mapping
from typing import Any

import numpy as np

KEYS = ("success", "is_success")  # keys of the info; gymnasium's robotics use the latter


class SuccessError(ValueError):
    """A reported success is neither true nor false; the message shows it."""


def read_success(info: Any, observation: Any) -> bool | None:
    """Returns the success at the end of an episode; None if the environment reports none.

    Args:
      info: Info of the last step, of any type; read if it has one of `KEYS`.
      observation: The last observation; read if it has ["aux"]["successful"].

    Raises:
      SuccessError: If it is not a bool, 0 or 1, alone or in an array of one element.
    """
    found = {}
    if isinstance(info, Mapping):
        found = {f"info[{key!r}]": info[key] for key in KEYS if key in info}
    if isinstance(observation, Mapping) and isinstance(aux := observation.get("aux"), Mapping):
        found['observation["aux"]["successful"]'] = aux.get("successful")
    for name, value in found.items():
        if value is not None:
            return _as_bool(value, name)
    return None


def _as_bool(value: Any, name: str) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    try:
        array = np.asarray(value)
    except Exception:  # an array of another library, or ragged
        array = np.array(None)
    if array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1):
        return bool(array.item())
    is_one = array.size == 1 or array.dtype == object
    shown = repr(value)[:40] if is_one else f"{array.dtype} of shape {array.shape}"
    raise SuccessError(
        f"{name} is {shown}; expected a bool, 0 or 1, alone or in an array of one element, so "
        "no success is counted"
    )
