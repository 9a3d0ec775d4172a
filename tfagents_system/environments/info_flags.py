"""Flags that environments report in the info of an env step."""

from typing import Any

import numpy as np


class FlagError(ValueError):
    """A reported flag is neither true nor false; the message shows it."""


def read_flag(value: Any, name: str) -> bool:
    """Returns a flag.

    Args:
      value: What the environment reports.
      name: Where, for the message.

    Raises:
      FlagError: If it is not a bool, 0 or 1, alone or in an array of one element.
    """
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
    raise FlagError(
        f"{name} is {shown}; expected a bool, 0 or 1, alone or in an array of one element"
    )
