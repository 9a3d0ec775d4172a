"""Side channels: parameters and engine settings for Unity, and statistics from it.

On the wire each message is a channel's id (16 bytes), its length (int32) and its contents, all
little endian.
"""

import numbers
import struct
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.hyperparameters import is_number

_PARAMETERS, _ENGINE, _STATISTICS = (
    uuid.UUID(name).bytes_le
    for name in (
        "534c891e-810f-11ea-a9d0-822485860400",
        "e951342c-4f7e-11ea-b238-784f4387d1f7",
        "a1d8f7b7-cec8-50f9-b78b-d3e165a78520",
    )
)
_FLOAT = 0  # type of a parameter
_MAX_FLOAT = 3.4e38  # of float32, rounded down
_MAX_INT = 2**31 - 1  # of int32


class EngineSettings(NamedTuple):
    """How fast and how finely Unity simulates and draws; the defaults are those of ML-Agents."""

    width: int = 84  # of the window, in pixels
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0  # simulated seconds per second
    target_frame_rate: int = -1  # frames per second; -1 is as many as possible
    capture_frame_rate: int = 60  # frames per simulated second


DEFAULT_ENGINE = EngineSettings()


def engine_settings(given: Any) -> EngineSettings:
    """Returns the defaults with those `given`.

    Args:
      given: Values by name, as the user gives them.

    Raises:
      ConfigError: If there is no such setting, or a message cannot hold a value.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f'engine is {given!r}; expected a dict, such as {{"time_scale": 1}}.')
    defaults = DEFAULT_ENGINE._asdict()
    for name, value in given.items():
        if name not in defaults:
            raise ConfigError(f"engine has no setting {name!r}.{did_you_mean(str(name), defaults)}")
        is_int = isinstance(defaults[name], int)
        largest, kind = (_MAX_INT, "a whole number") if is_int else (_MAX_FLOAT, "a number")
        is_held = is_number(value) and abs(value) <= largest
        if not is_held or (is_int and value != int(value)):
            raise ConfigError(
                f"The engine setting {name!r}, of unity_adapter.load, is {value!r}; expected "
                f"{kind}, which Unity holds as {'int32' if is_int else 'float32'}."
            )
    return EngineSettings._make(type(d)(given.get(name, d)) for name, d in defaults.items())


class Statistic(NamedTuple):
    """A number that the environment reports by `StatsRecorder`."""

    name: str
    value: float
    aggregation: int  # 0 average, 1 most recent, 2 sum, 3 histogram


def engine_message(settings: EngineSettings) -> bytes:
    """Returns the message that makes Unity use `settings`."""
    contents = (
        struct.pack("<iii", 0, settings.width, settings.height),
        struct.pack("<ii", 1, settings.quality_level),
        struct.pack("<if", 2, settings.time_scale),
        struct.pack("<ii", 3, settings.target_frame_rate),
        struct.pack("<ii", 4, settings.capture_frame_rate),
    )
    return b"".join(_message(_ENGINE, each) for each in contents)


def parameter_messages(parameters: Any) -> bytes:
    """Returns the messages that set parameters of the environment, which Unity stores as float.

    Args:
      parameters: Values by name, as the user gives them.

    Raises:
      ConfigError: If a message cannot hold a name or a value.
    """
    if not isinstance(parameters, Mapping):
        raise ConfigError(
            f'parameters is {parameters!r}; expected a dict, such as {{"gravity": 5}}.'
        )
    found = []
    for name, value in parameters.items():
        if not isinstance(name, str) or not name.isascii():
            raise ConfigError(
                f"The environment parameter {name!r}, of unity_adapter.load or the curriculum, "
                "cannot be sent; expected names of ASCII characters. Rename it in the scene too."
            )
        is_number = isinstance(value, numbers.Real)
        if not is_number or not -_MAX_FLOAT <= value <= _MAX_FLOAT:  # also NaN
            raise ConfigError(
                f"The environment parameter {name!r}, of unity_adapter.load or the curriculum, is "
                f"{value!r}; expected a number, which Unity holds as float32."
            )
        contents = _text(name) + struct.pack("<if", _FLOAT, float(value))
        found.append(_message(_PARAMETERS, contents))
    return b"".join(found)


def statistics(data: bytes) -> Iterator[Statistic]:
    """Yields the statistics in `data`; messages of other channels are left out."""
    for channel, contents in messages(data):
        if channel == _STATISTICS:
            (length,) = struct.unpack_from("<i", contents)
            name = contents[4 : 4 + length].decode("utf-8", "replace")
            yield Statistic(name, *struct.unpack_from("<fi", contents, 4 + length))


def messages(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields id and contents of each message.

    Raises:
      ValueError: If `data` ends within a message.
    """
    begin = 0
    while begin < len(data):
        try:
            (length,) = struct.unpack_from("<i", data, begin + 16)
        except struct.error as error:
            raise ValueError("Side channels: data end within a message.") from error
        end = begin + 20 + length
        if length < 0 or end > len(data):
            raise ValueError(f"Side channels: a message of {length} bytes ends beyond the data.")
        yield data[begin : begin + 16], data[begin + 20 : end]
        begin = end


def _message(channel: bytes, contents: bytes) -> bytes:
    return channel + struct.pack("<i", len(contents)) + contents


def _text(text: str) -> bytes:
    encoded = text.encode("ascii")
    return struct.pack("<i", len(encoded)) + encoded
