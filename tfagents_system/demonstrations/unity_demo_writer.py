"""Writes .demo files, which Unity's ML-Agents reads; see unity_demo.py."""

import io
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import write_bytes_durably
from tfagents_system.demonstrations.episode_file import ACTION, OBSERVATION, TERMINATED, Episode
from tfagents_system.demonstrations.unity_demo import BEHAVIOR_AT
from tfagents_system.environments.unity import messages as unity

_API_VERSION = 1
_MASK = f"{OBSERVATION}/{ACTION_MASK}"
_CONTINUOUS, _DISCRETE = f"{ACTION}/continuous", f"{ACTION}/discrete"
_FORM = (
    "float [A], or integers [K] from 0 for K branches, or a dict of both, continuous and discrete"
)


def write_unity_demo(
    path: pathlib.Path, episodes: Sequence[Episode], branches: Sequence[int] = ()
) -> None:
    """Writes episodes to one .demo file, as packages 3.0 and later of ML-Agents record them.

    An episode whose end is unknown counts as interrupted. Images of uint8
    [H, W, C] become PNGs, other observations floats.

    Args:
      path: The file, which is replaced.
      episodes: All with the same arrays.
      branches: The number of choices in each branch of discrete actions. Default: for a single
        branch, the length of the mask.

    Raises:
      ConfigError: If Unity's format has no place for them.
    """
    first = episodes[0]
    for episode in episodes[1:]:
        if episode.spec != first.spec:
            raise ConfigError(
                f"{path}: a .demo file is of one behavior, but {first.origin} has {first.spec}, "
                f"and {episode.origin} {episode.spec}. Convert them one by one."
            )
    continuous, discrete = _parts(first)
    num_branches = discrete.shape[1]
    sizes = _branch_sizes(episodes, num_branches, branches)
    name = first.environment or path.stem
    spec = unity.ActionSpec(
        num_continuous=continuous.shape[1], num_branches=num_branches, branch_sizes=sizes
    )
    decisions = [decision for episode in episodes for decision in _decisions(episode)]
    records = [unity.Behavior(name=name, action_spec=spec), *decisions]
    content = _head(path.stem, episodes, len(decisions)) + b"".join(map(_delimited, records))
    write_bytes_durably(path, content)


def _parts(episode: Episode) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns the continuous numbers [T, A] and the integers [T, K] of the actions."""
    nothing = np.zeros((episode.length, 0))
    named = dict(episode.actions)
    if (action := named.pop(ACTION, None)) is not None:
        named[_DISCRETE if action.dtype.kind in "iu" else _CONTINUOUS] = action
    continuous, discrete = named.pop(_CONTINUOUS, nothing), named.pop(_DISCRETE, nothing)
    if continuous.ndim == 1:
        continuous = continuous[:, np.newaxis]
    if discrete.ndim == 1:
        discrete = discrete[:, np.newaxis]
    is_integers = discrete.size == 0 or (discrete.dtype.kind in "iu" and discrete.min() >= 0)
    if named or continuous.ndim != 2 or discrete.ndim != 2 or not is_integers:
        shown = {n: what for n, what in episode.spec.items() if n.partition("/")[0] == ACTION}
        raise ConfigError(
            f"{episode.origin}: Unity has no such actions: {shown}. Expected {_FORM}."
        )
    return continuous.astype(np.float32), discrete.astype(np.int32)


def _branch_sizes(
    episodes: Sequence[Episode], num_branches: int, branches: Sequence[int]
) -> list[int]:
    mask = episodes[0].observations.get(_MASK)
    sizes = list(branches)
    if not sizes and num_branches == 1 and mask is not None:
        sizes = [mask.shape[1]]
    if len(sizes) != num_branches:
        raise ConfigError(
            f"{episodes[0].origin}: its actions have {num_branches} branches of integers, and "
            f"--branches has {sizes}. Say how many choices each has, such as --branches 3 2."
        )
    if num_branches and mask is not None and sum(sizes) != mask.shape[1]:
        raise ConfigError(
            f"--branches has {sizes}, {sum(sizes)} choices, but action_mask has {mask.shape[1]}."
        )
    for episode in episodes:
        discrete = _parts(episode)[1]
        if (discrete >= sizes).any():
            raise ConfigError(
                f"{episode.origin}: an action is {discrete.max(axis=0).tolist()}, beyond "
                f"--branches {sizes}."
            )
    return sizes


def _decisions(episode: Episode) -> Iterator[Any]:
    """Yields the messages of an episode; the action of the last one is not taken."""
    continuous, discrete = _parts(episode)
    shown = {name: array for name, array in episode.observations.items() if name != _MASK}
    mask = episode.observations.get(_MASK) if discrete.shape[1] else None
    for step in range(episode.length + 1):
        is_last = step == episode.length
        info = unity.AgentInfo(
            reward=float(episode.rewards[step - 1]) if step else 0.0,
            is_done=is_last,
            is_interrupted=is_last and episode.end != TERMINATED,
            observations=[_observation(name, array[step]) for name, array in shown.items()],
            forbidden=[] if mask is None else (mask[step] == 0).tolist(),
        )
        taken = min(step, episode.length - 1)
        numbers, choices = (
            (part[taken] * (not is_last)).tolist() for part in (continuous, discrete)
        )
        action = unity.Action(continuous=numbers, discrete=choices, of_old_api=[*numbers, *choices])
        yield unity.Decision(info=info, action=action)


def _observation(name: str, array: NDArray[Any]) -> Any:
    sensor = name.partition("/")[2] or OBSERVATION
    if array.dtype == np.uint8 and array.ndim == 3:
        return _image(sensor, array)
    numbers = np.atleast_1d(array).astype(np.float32)
    return unity.Observation(
        name=sensor,
        shape=numbers.shape,
        compression=unity.UNCOMPRESSED,
        floats=unity.Floats(data=numbers.ravel().tolist()),
        dimension_properties=[unity.NO_PROPERTY] * numbers.ndim if numbers.ndim < 3 else [],
    )


def _image(sensor: str, image: NDArray[np.uint8]) -> Any:
    """Returns an image [H, W, C] as PNGs of three channels each."""
    height, width, channels = image.shape
    if channels == 1:
        mapping, padded = [0, 0, 0], np.repeat(image, 3, axis=-1)
    else:
        num_missing = -channels % 3
        mapping = [*range(channels), *[-1] * num_missing]
        padded = np.pad(image, ((0, 0), (0, 0), (0, num_missing)))
    content = io.BytesIO()
    for first in range(0, padded.shape[-1], 3):
        Image.fromarray(np.ascontiguousarray(padded[..., first : first + 3])).save(content, "PNG")
    return unity.Observation(
        name=sensor,
        shape=[channels, height, width],
        compression=unity.PNG,
        compressed=content.getvalue(),
        channel_mapping=mapping,
        dimension_properties=[unity.NO_PROPERTY, unity.TRANSLATIONAL, unity.TRANSLATIONAL],
    )


def _head(name: str, episodes: Sequence[Episode], num_decisions: int) -> bytes:
    """Returns the bytes before the behavior; the name is cut to fit."""
    mean = float(np.mean([episode.rewards.sum(dtype=np.float64) for episode in episodes]))
    for length in range(min(len(name), BEHAVIOR_AT), -1, -1):
        meta = unity.DemonstrationMeta(
            api_version=_API_VERSION,
            name=name[:length],
            num_decisions=num_decisions,
            num_episodes=len(episodes),
            mean_return=mean,
        )
        if len(head := _delimited(meta)) <= BEHAVIOR_AT:
            return head.ljust(BEHAVIOR_AT, b"\0")
    raise AssertionError("without a name, it fits")


def _delimited(message: Any) -> bytes:
    content = message.SerializeToString()
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return length + bytes([size]) + content
