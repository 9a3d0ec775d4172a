"""Reads .demo files, which Unity's ML-Agents records.

A file is a stream of protobuf messages, each after its length as a varint: DemonstrationMeta at
byte 0, the behavior at byte 33, then one Decision after another: what the agent saw, the reward and
the end that its last action led to, and its next action. The action of an episode's last decision
was never taken. Versions: com.unity.ml-agents 0.11 to 4.0 (API versions 0 and 1).
"""

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import DecodeError

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
    episode_of,
)
from tfagents_system.environments.unity import messages as unity
from tfagents_system.environments.unity.behaviors import Behavior

API_VERSIONS = (0, 1)
BEHAVIOR_AT = 33  # byte


def read_unity_demo(path: pathlib.Path) -> list[Episode]:
    """Returns the episodes in a .demo file, as the environment of the same build has them.

    Raises:
      ConfigError: If it cannot be read, is damaged, or of another version.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
        meta = unity.DemonstrationMeta.FromString(_delimited(data, 0)[0])
        if meta.api_version not in API_VERSIONS:
            raise ConfigError(
                f"{path}: API version {meta.api_version} of ML-Agents; expected 0 or 1."
            )
        description, *records = _records(data, BEHAVIOR_AT)
        decisions = [
            unity.Decision.FromString(record) for record in records[: meta.num_decisions or None]
        ]
        if not decisions:
            return []
        behavior = Behavior.read(
            unity.Behavior.FromString(description), [each.info for each in decisions]
        )
        return list(_episodes(decisions, behavior, path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, IndexError, DecodeError) as error:
        raise ConfigError(f"{path}: damaged, or no .demo file of ML-Agents ({error}).") from error


def _episodes(
    decisions: Sequence[Any], behavior: Behavior, path: pathlib.Path
) -> Iterator[Episode]:
    begin = 0
    for number, decision in enumerate(decisions):
        last = decision.info
        if not last.is_done and number + 1 < len(decisions):
            continue
        own = decisions[begin : number + 1]
        begin = number + 1
        if len(own) < 2:  # no action was taken
            continue
        agents = behavior.agents([each.info for each in own])
        observations = {f"{OBSERVATION}/{k}": part for k, part in agents.observations.items()}
        actions: Any = behavior.actions([each.action for each in own[:-1]])
        if isinstance(actions, dict):
            actions = {f"{ACTION}/{name}": part for name, part in actions.items()}
        else:
            actions = {ACTION: actions}
        end = UNFINISHED
        if last.is_done:
            end = TRUNCATED if last.is_interrupted else TERMINATED
        arrays = observations | actions | {REWARD: agents.rewards[1:]}
        yield episode_of(arrays, end, behavior.name, f"{path}, decision {number}")


def _records(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        record, at = _delimited(data, at)
        yield record


def _delimited(data: bytes, at: int) -> tuple[bytes, int]:
    """Returns the bytes after their length at `at`, and where they end."""
    size = 0
    for shift in itertools.count(0, 7):
        if shift > 63:
            raise ValueError("an integer is too long")
        byte, at = data[at], at + 1
        size |= (byte & 127) << shift
        if byte < 128:
            break
    if at + size > len(data):
        raise ValueError(f"a message of {size} bytes ends after {len(data) - at}")
    return data[at : at + size], at + size
