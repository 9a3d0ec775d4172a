"""Converts pictures to uint8 images, of which the replay buffer holds four times as many.

    environment = AsImages(gymnasium_adapter.load("CarRacing-v3", seed=seed))

Wraps any PyEnvironment, in `TrainParams.env_ctor`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name
from tfagents_system.data.images import (
    CHANNELS_LAST,
    channels_last,
    is_image,
    layout_of,
    layout_of_shape,
    looks_like_image,
)
from tfagents_system.environments.observation_wrapper import ObservationWrapper


class AsImages(ObservationWrapper):
    """Converts pictures in observations to uint8 [height, width, channels].

    Gray pictures [H, W] get a channel, channels before height and width move to the end, and
    numbers of other dtypes are mapped from the bounds of their spec to 0..255. Other parts of the
    observation stay unchanged.
    """

    def __init__(self, environment: py_environment.PyEnvironment):
        """Wraps and owns `environment`.

        Raises:
          ConfigError: If its observation has no picture, or one of floats without finite bounds.
        """
        super().__init__(environment)
        leaves = tree.flatten_with_path(self._spec)
        if not any(_is_picture(leaf) for _, leaf in leaves):
            found = ", ".join(f"{leaf.dtype} {list(leaf.shape)}" for _, leaf in leaves)
            raise ConfigError(f"AsImages: no observation of the environment is a picture: {found}.")
        self._spec = tree.map_structure(_image_spec, self._spec)
        self._casts = [_image_cast(leaf, leaf_name("observation", *path)) for path, leaf in leaves]

    def _observe(self, time_step: ts.TimeStep) -> Any:
        leaves = tree.flatten_up_to(self._spec, time_step.observation, check_types=False)
        images = [cast(leaf) for cast, leaf in zip(self._casts, leaves, strict=True)]
        return tree.unflatten_as(self._spec, images)


def _is_picture(spec: array_spec.ArraySpec) -> bool:
    is_done = spec.dtype == np.uint8 and layout_of(spec) == CHANNELS_LAST
    return looks_like_image(spec) or (is_image(spec) and not is_done)


def _image_spec(spec: array_spec.ArraySpec) -> array_spec.ArraySpec:
    if not _is_picture(spec):
        return spec
    shape = _channels_last(np.empty(spec.shape, np.uint8), _layout_of(spec)).shape
    return array_spec.BoundedArraySpec(shape, np.uint8, 0, 255, spec.name)


def _image_cast(spec: array_spec.ArraySpec, name: str) -> Callable[[Any], Any]:
    """Returns the function that converts a leaf to an image; None if it is not a picture."""
    if not _is_picture(spec):
        return lambda leaf: leaf
    layout = _layout_of(spec)
    if spec.dtype == np.uint8:
        return lambda leaf: _channels_last(np.asarray(leaf), layout)
    # Each number has its own bounds: channels may be colors and a depth.
    low, high = (np.float64(getattr(spec, side, np.nan)) for side in ("minimum", "maximum"))
    with np.errstate(over="ignore"):
        is_bounded = np.isfinite(high - low) & (np.abs(high) < 1e6) & (high > low)
    if not is_bounded.all():
        raise ConfigError(
            f"AsImages: {name} is {np.dtype(spec.dtype)} from {low.min():g} to {high.max():g}; "
            "expected finite bounds, the upper one larger, such as Box(0, 1, (84, 84, 3)), "
            "which become 0 and 255."
        )
    offset, scale = np.float32(low), np.float32(255 / (high - low))

    def cast(leaf: Any) -> NDArray[Any]:
        colors = np.rint((np.asarray(leaf, np.float32) - offset) * scale)
        if not np.isfinite(colors).all():
            raise ValueError(f"{name} is not finite")
        return _channels_last(np.clip(colors, 0, 255).astype(np.uint8), layout)

    return cast


def _layout_of(spec: array_spec.ArraySpec) -> str:
    return layout_of(spec) if is_image(spec) else layout_of_shape(spec.shape)


def _channels_last(picture: NDArray[Any], layout: str) -> NDArray[Any]:
    return channels_last(picture[np.newaxis], layout)[0]
