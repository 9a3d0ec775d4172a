"""Checks the axes of images that a user gives by `image_layouts`."""

from collections.abc import Mapping
from typing import Any

LAYOUTS = ("HWC", "CHW", "HW", "vector")  # the axes, in order: height, width, channels
IMAGE_LAYOUTS_ALLOWED = f"None or a dict of {', '.join(LAYOUTS)} by names of arrays"


def is_image_layouts(value: Any) -> bool:
    """Returns whether `value` is None or maps names of arrays to layouts."""
    return value is None or (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and layout in LAYOUTS for name, layout in value.items())
    )
