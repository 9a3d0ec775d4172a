"""Stacks the newest frames of image observations."""

import collections
from collections.abc import Iterable
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data import images
from tfagents_system.environments.observation_wrapper import ObservationWrapper


class FrameStack(ObservationWrapper):
    """Stacks the last `num_frames` frames of image observations.

    Frames are joined along the channels, the newest last, gray frames [H, W] to [H, W, num_frames];
    before the start of an episode its first frame is repeated. Other parts of the observation stay
    unchanged.
    """

    def __init__(self, environment: py_environment.PyEnvironment, num_frames: int):
        """Wraps and owns `environment`; raises ConfigError if it has no image observation."""
        super().__init__(environment)
        self._frame_spec = self._spec
        leaves = tree.flatten(self._spec)
        if not any(map(images.is_image, leaves)):
            found = ", ".join(f"{spec.dtype} {list(spec.shape)}" for spec in leaves)
            raise ConfigError(
                f"TrainParams.frame_stack is {num_frames}, but no observation of the environment "
                f"is an image: {found}. Expected frame_stack = 1. If one is, say which by "
                "image_layouts: docs/environments.md#images."
            )
        self._num_frames = num_frames
        self._spec = tree.map_structure(lambda leaf: _stacked(leaf, num_frames), self._spec)
        self._frames: list[collections.deque[NDArray[Any]]] = []

    def _observe(self, time_step: ts.TimeStep) -> Any:
        leaves = tree.flatten(time_step.observation)
        if time_step.is_first():
            self._frames = [collections.deque(maxlen=self._num_frames) for _ in leaves]
        specs, joined = tree.flatten(self._frame_spec), []
        for spec, leaf, frames in zip(specs, leaves, self._frames, strict=True):
            if images.is_image(spec):
                frames.extend([np.array(leaf)] * (1 if frames else self._num_frames))
                leaf = _joined(frames, images.layout_of(spec))
            joined.append(leaf)
        return tree.unflatten_as(self._spec, joined)


def _stacked(spec: array_spec.ArraySpec, num_frames: int) -> array_spec.ArraySpec:
    """Returns the spec of stacked frames of `spec`, with its bounds; unchanged if not an image."""
    if not images.is_image(spec):
        return spec
    layout = images.layout_of(spec)
    of_stack = images.CHANNELS_LAST if layout == images.GRAY else layout
    name = images.name_with_layout(spec.name, of_stack)

    def joined(frame: Any) -> NDArray[Any]:
        return _joined([np.broadcast_to(frame, spec.shape)] * num_frames, layout)

    if not isinstance(spec, array_spec.BoundedArraySpec):
        return array_spec.ArraySpec(joined(0).shape, spec.dtype, name)
    low, high = joined(spec.minimum), joined(spec.maximum)
    return array_spec.BoundedArraySpec(low.shape, spec.dtype, low, high, name)


def _joined(frames: Iterable[NDArray[Any]], layout: str) -> NDArray[Any]:
    """Joins frames of this layout along their channels."""
    if layout == images.GRAY:
        return np.stack(list(frames), axis=-1)
    return np.concatenate(list(frames), axis=images.channel_axis(layout))
