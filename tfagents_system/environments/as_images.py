"""Converts pictures to the image format that the networks take.

    environment = AsImages(gymnasium_adapter.load("CarRacing-v3", seed=seed))

Wraps any PyEnvironment, in `TrainParams.env_ctor`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.frames import has_channels_first, is_image, looks_like_image


class AsImages(wrappers.PyEnvironmentBaseWrapper):
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
        spec = environment.observation_spec()
        leaves = tree.flatten_with_path(spec)
        if not any(_is_picture(leaf) for _, leaf in leaves):
            found = ", ".join(f"{leaf.dtype} {list(leaf.shape)}" for _, leaf in leaves)
            raise ConfigError(f"AsImages: no observation of the environment is a picture: {found}.")
        self._spec = tree.map_structure(_image_spec, spec)
        self._casts = [
            _image_cast(leaf, "/".join(map(str, ("observation", *path)))) for path, leaf in leaves
        ]

    def observation_spec(self) -> Any:
        """Returns the specs with the images."""
        return self._spec

    def _reset(self) -> ts.TimeStep:
        return self._with_images(self._env.reset())

    def _step(self, action: Any) -> ts.TimeStep:
        return self._with_images(self._env.step(action))

    def _with_images(self, time_step: ts.TimeStep) -> ts.TimeStep:
        leaves = tree.flatten_up_to(self._spec, time_step.observation, check_types=False)
        images = [cast(leaf) for cast, leaf in zip(self._casts, leaves, strict=True)]
        return time_step._replace(observation=tree.unflatten_as(self._spec, images))


def _is_picture(spec: array_spec.ArraySpec) -> bool:
    return looks_like_image(spec) or (is_image(spec) and has_channels_first(spec.shape))


def _image_spec(spec: array_spec.ArraySpec) -> array_spec.ArraySpec:
    if not _is_picture(spec):
        return spec
    shape = _channels_last(np.empty(spec.shape, np.uint8)).shape
    return array_spec.BoundedArraySpec(shape, np.uint8, 0, 255, spec.name)


def _image_cast(spec: array_spec.ArraySpec, name: str) -> Callable[[Any], Any]:
    """Returns the function that converts a leaf to an image; None if it is not a picture."""
    if not _is_picture(spec):
        return lambda leaf: leaf
    if spec.dtype == np.uint8:
        return lambda leaf: _channels_last(np.asarray(leaf))
    low, high = (float(np.ravel(getattr(spec, side, np.nan))[0]) for side in ("minimum", "maximum"))
    scale = 255 / (high - low) if np.isfinite(high - low) and abs(high) < 1e6 else 0.0
    if not scale > 0:
        raise ConfigError(
            f"AsImages: {name} is {np.dtype(spec.dtype)} from {low:g} to {high:g}; allowed are "
            "finite bounds, such as Box(0, 1, (84, 84, 3)), which become 0 and 255."
        )

    def cast(leaf: Any) -> NDArray[Any]:
        colors = np.rint((np.asarray(leaf, np.float32) - low) * scale)
        if not np.isfinite(colors).all():
            raise ValueError(f"{name} is not finite")
        return _channels_last(np.clip(colors, 0, 255).astype(np.uint8))

    return cast


def _channels_last(picture: NDArray[Any]) -> NDArray[Any]:
    if picture.ndim == 2:
        return picture[:, :, np.newaxis]
    return np.moveaxis(picture, 0, 2) if has_channels_first(picture.shape) else picture
