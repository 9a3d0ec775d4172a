"""Renders environments to frames, for films, windows, reports and `sac check`."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.guest_environment import as_made

_ROUNDING = 1e-3  # by which renderers may exceed 0 and 1


def draw(environment: Any) -> NDArray[np.uint8]:
    """Renders a frame of a PyEnvironment that has been reset; see `as_frame`.

    Raises:
      NotImplementedError: If it cannot render.
      ConfigError: If the result is not a picture.
    """
    return as_frame(environment.render("rgb_array"), type(as_made(environment)).__name__)


def as_frame(picture: Any, owner: str) -> NDArray[np.uint8]:
    """Returns a copy of a rendered picture as contiguous uint8 [H, W, 3].

    Gray becomes RGB, alpha is dropped, channels before height and width move to the end, and a
    batch axis of one picture is removed. Booleans are black and white; integers and floats range
    from 0 to 255, but floats range from 0 to 1 if none is above 1.

    Args:
      picture: The rendered picture.
      owner: Name of the environment, for the message.

    Raises:
      ConfigError: If it is not a picture, for example None.
    """
    try:
        array = np.asarray(picture)
    except Exception:  # an array of another library, or ragged
        array = np.array(None)
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        _refuse(owner, f"{type(picture).__name__} of shape {np.shape(array)}")
    colors = _as_bytes(array[:, :, :3], owner)
    return np.ascontiguousarray(np.broadcast_to(colors, (*array.shape[:2], 3)))


def _as_bytes(array: NDArray[Any], owner: str) -> NDArray[np.uint8]:
    """Returns the same colors as a new uint8 array."""
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return array.copy()
    if kind == "b":
        return array * np.uint8(255)
    if kind not in "iuf":
        _refuse(owner, f"numbers of dtype {array.dtype}")
    lowest, highest = float(array.min()), float(array.max())
    # Written so that NaN is rejected.
    if not (lowest >= -_ROUNDING and highest < 255.5):
        _refuse(owner, f"{array.dtype} from {lowest:g} to {highest:g}")
    if kind != "f":
        return array.astype(np.uint8)
    scale = 255.0 if highest <= 1 + _ROUNDING else 1.0
    return np.rint(np.clip(array * scale, 0, 255)).astype(np.uint8)


def _refuse(owner: str, found: str) -> NoReturn:
    raise ConfigError(
        f"{owner}.render returned {found}; a film needs an array [height, width, 3] of uint8, or "
        "one that can be made of it: gray or with alpha, bool, 0 to 255, or floats from 0 to 1."
    )
