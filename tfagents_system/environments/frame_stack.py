"""Stacks the newest frames of image observations."""

import collections
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.environments import py_environment, wrappers
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.frames import is_image


class FrameStack(wrappers.PyEnvironmentBaseWrapper):
    """Stacks the last `num_frames` frames of image observations.

    Frames are joined along the channels, the newest last; before the start of an episode its first
    frame is repeated. Other parts of the observation stay unchanged.
    """

    def __init__(self, environment: py_environment.PyEnvironment, num_frames: int):
        """Wraps and owns `environment`; raises ConfigError if it has no image observation."""
        super().__init__(environment)
        self._spec = environment.observation_spec()
        leaves = tree.flatten(self._spec)
        if not any(map(is_image, leaves)):
            found = ", ".join(f"{spec.dtype} {list(spec.shape)}" for spec in leaves)
            raise ConfigError(
                f"TrainParams.frame_stack is {num_frames}, but no observation of the environment "
                f"is an image, uint8 [H, W, C]: {found}. Allowed is 1 then; as_images.AsImages "
                "makes images of other pictures."
            )
        self._num_frames = num_frames
        self._frames: list[collections.deque[NDArray[np.uint8]]] = []

    def observation_spec(self) -> Any:
        """Returns the specs of the stacked observation."""

        def stacked(spec: array_spec.ArraySpec) -> array_spec.ArraySpec:
            if not is_image(spec):
                return spec
            shape = (*spec.shape[:-1], spec.shape[-1] * self._num_frames)
            return array_spec.ArraySpec(shape, spec.dtype, spec.name)

        return tree.map_structure(stacked, self._spec)

    def _reset(self) -> ts.TimeStep:
        return self._stacked(self._env.reset())

    def _step(self, action: Any) -> ts.TimeStep:
        return self._stacked(self._env.step(action))

    def _stacked(self, time_step: ts.TimeStep) -> ts.TimeStep:
        leaves = tree.flatten(time_step.observation)
        if time_step.is_first():
            self._frames = [collections.deque(maxlen=self._num_frames) for _ in leaves]
        joined = []
        for spec, leaf, frames in zip(tree.flatten(self._spec), leaves, self._frames, strict=True):
            if is_image(spec):
                frames.extend([np.array(leaf)] * (1 if frames else self._num_frames))
                leaf = np.concatenate(frames, axis=-1)
            joined.append(leaf)
        return time_step._replace(observation=tree.unflatten_as(self._spec, joined))
