"""Converts `reward_signals` of a behavior into streams of rewards of our own. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_system.commands.mlagents.document import Section
from tfagents_system.commands.mlagents.reading import at_least, flag, mapping, number
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean

_OF_ALL = ("strength", "gamma", "network_settings")
_OF_LEARNED = (*_OF_ALL, "encoding_size", "learning_rate", "num_epoch")
_FLAGS = ("use_actions", "use_vail")
_KEYS: Mapping[str, Sequence[str]] = {
    "extrinsic": _OF_ALL,
    "curiosity": _OF_LEARNED,
    "rnd": _OF_LEARNED,
    "gail": (*_OF_LEARNED, *_FLAGS, "demo_path"),
}


class Signals(NamedTuple):
    """The streams, and the demonstrations that they imitate."""

    streams: dict[str, dict[str, Any]]  # the hyperparameter `reward_signals`
    demonstrations: tuple[str, ...]


def convert_signals(section: Section, notes: list[str]) -> Signals:
    """Returns the signals of a section, or the environment's signal if it has none.

    Args:
      section: Of a behavior.
      notes: Receives a note on each setting that has no counterpart here.

    Raises:
      ConfigError: If a signal or a key is unknown, or a value is not allowed.
    """
    where = f"{section.where}.reward_signals"
    given = mapping(section.values.get("reward_signals", {"extrinsic": {}}), where)
    updates = given.pop("reward_signal_num_update", None)  # stands among the signals up to 0.15
    if updates is not None:
        notes.append(f"reward_signal_num_update {updates}: signals are trained in each train step")
    streams: dict[str, dict[str, Any]] = {}
    demonstrations: tuple[str, ...] = ()
    for name, entry in given.items():
        if name not in _KEYS:
            hint = did_you_mean(name, _KEYS)
            raise ConfigError(f"{where} has the unknown signal {name!r}.{hint}")
        place = f"{where}.{name}"
        settings = mapping(entry, place)
        stream = _stream(name, settings, place, notes)
        if stream["strength"] <= 0:
            notes.append(f"reward_signals.{name}: its strength is 0; left out")
            continue
        if name == "gail":
            demonstrations = (_demo_path(settings, place),)
            if section.is_newest:  # in earlier layouts, terminations did not end its returns
                stream["use_terminal_states"] = True
        streams[name] = stream
    if not streams:
        raise ConfigError(f"{where} has no signal; expected {', '.join(_KEYS)}.")
    return Signals(streams, demonstrations)


def _stream(name: str, entry: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    for key in entry:
        if key not in _KEYS[name]:
            hint = did_you_mean(key, _KEYS[name])
            raise ConfigError(f"{where} has the unknown key {key!r}.{hint}")
    stream: dict[str, Any] = {
        "strength": number(entry.get("strength", 1.0), f"{where}.strength"),
        "discount": number(entry.get("gamma", 0.99), f"{where}.gamma"),
    }
    network = mapping(entry.get("network_settings"), f"{where}.network_settings")
    if (size := _encoding_size(name, entry, network, where, notes)) is not None:
        stream["encoding_size"] = size
    if "learning_rate" in entry:
        stream["learning_rate"] = number(entry["learning_rate"], f"{where}.learning_rate")
    for key in _FLAGS:
        if key in entry:
            stream[key] = flag(entry[key], f"{where}.{key}")
    shown = f"reward_signals.{name}"
    if rest := [key for key in network if name == "extrinsic" or key != "hidden_units"]:
        notes.append(f"{shown}.network_settings.{', '.join(rest)}: the networks are our own")
    if "num_epoch" in entry:
        notes.append(f"{shown}.num_epoch {entry['num_epoch']}: of PPO, without effect in SAC")
    return stream


def _encoding_size(
    name: str, entry: Mapping[str, Any], network: Mapping[str, Any], where: str, notes: list[str]
) -> int | None:
    """Returns the units of a learned signal; None: the default, the same as in ML-Agents."""
    if name == "extrinsic":
        return None
    size, key = entry.get("encoding_size"), "encoding_size"
    if entry.get("network_settings") is not None:  # in the newest layout, where only it counts
        if size is not None:
            notes.append(f"reward_signals.{name}.encoding_size {size}: network_settings counts")
        size, key = network.get("hidden_units"), "network_settings.hidden_units"
    return None if size is None else int(at_least(1, size, f"{where}.{key}"))


def _demo_path(entry: Mapping[str, Any], where: str) -> str:
    path = entry.get("demo_path")
    if not isinstance(path, str) or not path:
        raise ConfigError(f"{where}.demo_path is {path!r}; expected a file or a folder.")
    return path
