"""Reads ML-Agents' trainer configuration in any of its layouts.

Up to 0.16, a file maps behaviors to flat sections, and `default` has the keys that they lack. Since
0.17, `behaviors` has nested sections; next to it are `parameter_randomization` and `curriculum` in
0.17 and 0.18, `environment_parameters` and `default_settings` since 0.19.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.commands.mlagents.reading import mapping, read_mapping
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean

_OF_SECTION = (
    "max_steps", "time_horizon", "summary_freq", "reward_signals", "behavioral_cloning",
    "self_play", "keep_checkpoints", "checkpoint_interval", "even_checkpoints", "threaded",
    "init_path", "framework", "output_path",
)  # fmt: skip
PPO_KEYS = (
    "beta", "beta_schedule", "epsilon", "epsilon_schedule", "lambd", "num_epoch", "shared_critic",
)  # fmt: skip
_HYPERPARAMETERS = (
    "batch_size", "buffer_size", "buffer_init_steps", "init_entcoef", "tau", "learning_rate",
    "learning_rate_schedule", "steps_per_update", "reward_signal_steps_per_update",
    "save_replay_buffer", *PPO_KEYS,
)  # fmt: skip
_NETWORK = (
    "normalize", "hidden_units", "num_layers", "vis_encode_type", "goal_conditioning_type",
    "deterministic",
)  # fmt: skip
_MEMORY = ("sequence_length", "memory_size")
_FLAT = (
    "trainer", "train_interval", "num_update", "use_recurrent", "pretraining", "summary_path",
    "model_path",
    *_OF_SECTION, *_HYPERPARAMETERS, *_NETWORK, *_MEMORY,
)  # fmt: skip
_BESIDE_BEHAVIORS = (
    "behaviors", "default_settings", "environment_parameters", "parameter_randomization",
    "curriculum", "env_settings", "engine_settings", "checkpoint_settings", "torch_settings",
    "debug",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Sources:
    """The files of ML-Agents that make up a project."""

    trainer: pathlib.Path
    behavior: str | None = None  # None: the only one
    curriculum: pathlib.Path | None = None  # up to 0.16
    sampler: pathlib.Path | None = None  # up to 0.16


@dataclasses.dataclass(frozen=True)
class Section:
    """The settings of one behavior, in one flat mapping whatever the layout."""

    behavior: str
    where: str  # file and key, for messages
    values: Mapping[str, Any]
    is_nested: bool  # in a layout since 0.17
    is_newest: bool  # in the layout since 0.19


@dataclasses.dataclass(frozen=True)
class Document:
    """A trainer configuration."""

    path: pathlib.Path
    sections: Mapping[str, Mapping[str, Any]]  # as in the file, with the defaults
    beside: Mapping[str, Any]  # the other top-level parts of the file
    is_nested: bool
    default: Mapping[str, Any] | None = None  # of behaviors without a section; None: there is none

    @property
    def name_of_default(self) -> str:
        """Key of the settings of behaviors without a section."""
        return "default_settings" if self.is_nested else "default"

    def section(self, behavior: str | None) -> Section:
        """Returns the section of a behavior; None stands for the only behavior.

        A behavior without a section gets the defaults, as in ML-Agents.

        Raises:
          ConfigError: If there is no such behavior and no default, or there are several behaviors;
            if a key is unknown.
        """
        if behavior is None:
            if len(self.sections) > 1:
                names = ", ".join(sorted(self.sections))
                raise ConfigError(
                    f"{self.path} has {len(self.sections)} behaviors; choose one with --behavior: "
                    f"{names}."
                )
            behavior = next(iter(self.sections), self.name_of_default)
        if (values := self.sections.get(behavior, self.default)) is None:
            hint = did_you_mean(behavior, self.sections)
            raise ConfigError(
                f"{self.path} has no behavior {behavior!r}, and no {self.name_of_default}.{hint}"
            )
        name = behavior if behavior in self.sections else self.name_of_default
        where = f"{self.path}: {name}"
        flat = _flattened(values, where) if self.is_nested else _known(values, _FLAT, where)
        is_older = {"parameter_randomization", "curriculum"} & self.beside.keys()
        return Section(behavior, where, flat, self.is_nested, self.is_nested and not is_older)


def read_document(path: pathlib.Path) -> Document:
    """Reads a trainer configuration of any layout.

    Raises:
      ConfigError: If it cannot be read, or a part of it does not belong to its layout.
    """
    content = read_mapping(path)
    is_nested = not content.keys().isdisjoint(_BESIDE_BEHAVIORS)
    name_of_default = "default_settings" if is_nested else "default"
    has_default = name_of_default in content
    default = mapping(content.pop(name_of_default, None), f"{path}: {name_of_default}")
    if is_nested:
        _known(content, _BESIDE_BEHAVIORS, str(path))
        behaviors = mapping(content.pop("behaviors", None), f"{path}: behaviors")
        sections = {
            name: _merged(default, mapping(section, f"{path}: behaviors.{name}"))
            for name, section in behaviors.items()
        }
    else:
        sections = {name: default | mapping(s, f"{path}: {name}") for name, s in content.items()}
    if not sections and not has_default:
        raise ConfigError(f"{path} has no behavior, and no {name_of_default}.")
    return Document(
        path, sections, content if is_nested else {}, is_nested, default if has_default else None
    )


def _merged(default: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(default)
    for key, value in section.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _flattened(section: Mapping[str, Any], where: str) -> dict[str, Any]:
    parts = ("trainer_type", "hyperparameters", "network_settings", *_OF_SECTION)
    flat = dict(_known(section, parts, where))
    of_hyper = mapping(flat.pop("hyperparameters", None), f"{where}.hyperparameters")
    of_network = mapping(flat.pop("network_settings", None), f"{where}.network_settings")
    flat |= _known(of_hyper, _HYPERPARAMETERS, f"{where}.hyperparameters")
    flat |= _known(of_network, (*_NETWORK, "memory"), f"{where}.network_settings")
    if (memory := flat.pop("memory", None)) is not None:
        place = f"{where}.network_settings.memory"
        flat |= _known(mapping(memory, place), _MEMORY, place)
        flat["use_recurrent"] = True
    if "trainer_type" in flat:
        flat["trainer"] = flat.pop("trainer_type")
    return flat


def _known(values: Mapping[str, Any], known: tuple[str, ...], where: str) -> Mapping[str, Any]:
    for key in values:
        if key not in known:
            raise ConfigError(f"{where} has the unknown key {key!r}.{did_you_mean(key, known)}")
    return values
