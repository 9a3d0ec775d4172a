"""Reads .demo files, which Unity's ML-Agents records.

A file is a stream of protobuf messages, each after its length as a varint: DemonstrationMeta at
byte 0, BrainParameters at byte 33, then an AgentInfoActionPair for each decision: what the agent
saw, with the reward and the end that its last action led to, and its next action. The action of an
episode's last pair was never taken. Field numbers are those of the .proto files of ML-Agents,
com.unity.ml-agents 0.11 to 4.0 (API versions 0 and 1).
"""

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import open_regular
from tfagents_system.demonstrations.episode_file import (
    ACTION,
    OBSERVATION,
    REWARD,
    TERMINATED,
    TRUNCATED,
    UNFINISHED,
    Episode,
    as_stored,
    episode_of,
)

API_VERSIONS = (0, 1)
BEHAVIOR_AT = 33  # byte
DISCRETE = 0  # SpaceTypeProto, of files before branches and continuous actions could be mixed

_Message = dict[int, list[Any]]  # values by field number: integers of varints, otherwise bytes


def read_unity_demo(path: pathlib.Path) -> list[Episode]:
    """Returns the episodes in a .demo file.

    One observation is named "observation", several "observation/0" and so on, as the parts of a
    Tuple are; so are continuous and discrete actions if there are both.

    Raises:
      ConfigError: If it cannot be read, is damaged, or has images or another version.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
        meta, _ = _delimited(data, 0)
        version = _integer(_parsed(meta), 1)
        if version not in API_VERSIONS:
            raise ConfigError(f"{path}: API version {version} of ML-Agents; allowed are 0 and 1.")
        records = _records(data, BEHAVIOR_AT)
        behavior = _parsed(next(records))
        count = _integer(_parsed(meta), 3)
        pairs = [_parsed(record) for record in itertools.islice(records, count or None)]
        return list(_episodes(pairs, behavior, path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, IndexError, StopIteration) as error:
        raise ConfigError(f"{path}: damaged, or no .demo file of ML-Agents ({error}).") from error


def _episodes(pairs: list[_Message], behavior: _Message, path: pathlib.Path) -> Iterator[Episode]:
    seen: list[dict[str, NDArray[Any]]] = []
    taken: list[dict[str, NDArray[Any]]] = []
    rewards: list[np.float32] = []
    is_discrete = _is_discrete(behavior)
    for number, pair in enumerate(pairs):
        info = _part(pair, 1)
        if seen:
            rewards.append(np.float32(_number(info, 7) + _number(info, 15)))  # also the group's
        seen.append(_observations(info, path))
        is_done = bool(_integer(info, 8))
        if is_done or number + 1 == len(pairs):
            end = UNFINISHED
            if is_done:
                end = TRUNCATED if _integer(info, 9) else TERMINATED
            if rewards:
                arrays = _stacked(seen) | _stacked(taken) | {REWARD: np.array(rewards)}
                yield episode_of(arrays, end, _text(behavior, 7), f"{path}, pair {number}")
            seen, taken, rewards = [], [], []
        else:
            taken.append(_actions(_part(pair, 2), is_discrete))


def _observations(info: _Message, path: pathlib.Path) -> dict[str, NDArray[Any]]:
    found = []
    for observation in map(_parsed, info.get(13, [])):
        if 4 not in observation:
            raise ConfigError(
                f"{path}: it has compressed images, which are not read. Record with cameras whose "
                "Compression is None."
            )
        found.append(_floats(_part(observation, 4), 1).reshape(_integers(observation, 1)))
    return _named(OBSERVATION, found)


def _actions(action: _Message, is_discrete: bool) -> dict[str, NDArray[Any]]:
    continuous, discrete = _floats(action, 6), _integers(action, 7)
    if not continuous.size and not discrete:  # API version 0
        continuous = _floats(action, 1)
        if is_discrete:
            continuous, discrete = continuous[:0], [int(value) for value in continuous]
    found: list[NDArray[Any]] = [continuous] if continuous.size else []
    if discrete:
        choices = np.array(discrete, np.int64)
        found.append(choices[0] if len(choices) == 1 else choices)  # as Discrete, MultiDiscrete
    return _named(ACTION, found)


def _is_discrete(behavior: _Message) -> bool:
    return 9 not in behavior and _integer(behavior, 6) == DISCRETE


def _named(name: str, arrays: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    if len(arrays) == 1:
        return {name: as_stored(arrays[0])}
    return {f"{name}/{index}": as_stored(array) for index, array in enumerate(arrays)}


def _stacked(steps: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.stack([step[name] for step in steps]) for name in steps[0]}


def _records(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        record, at = _delimited(data, at)
        yield record


def _delimited(data: bytes, at: int) -> tuple[bytes, int]:
    """Returns the bytes after their length at `at`, and where they end."""
    size, begin = _varint(data, at)
    if begin + size > len(data):
        raise ValueError(f"a message of {size} bytes ends after {len(data) - begin}")
    return data[begin : begin + size], begin + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("an integer is too long")


def _parsed(data: bytes) -> _Message:
    fields: _Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            value, at = _delimited(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _part(message: _Message, number: int) -> _Message:
    return _parsed(b"".join(message.get(number, [])))


def _integer(message: _Message, number: int) -> int:
    return message.get(number, [0])[-1]


def _integers(message: _Message, number: int) -> list[int]:
    """Returns a repeated field, packed or not."""
    found: list[int] = []
    for value in message.get(number, []):
        at = 0
        while isinstance(value, bytes) and at < len(value):
            element, at = _varint(value, at)
            found.append(element)
        if isinstance(value, int):
            found.append(value)
    return found


def _floats(message: _Message, number: int) -> NDArray[np.float32]:
    """Returns a repeated field, packed or not: both are the same bytes."""
    return np.frombuffer(b"".join(message.get(number, [])), "<f4")


def _number(message: _Message, number: int) -> float:
    values = _floats(message, number)
    return float(values[-1]) if values.size else 0.0


def _text(message: _Message, number: int) -> str:
    return b"".join(message.get(number, [])).decode()
