"""The files of a project that is made from ML-Agents' configuration."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.commands.mlagents.document import Document, read_document
from tfagents_system.commands.mlagents.parameters import curriculum_of
from tfagents_system.commands.mlagents.reading import mapping, number
from tfagents_system.commands.mlagents.settings import Converted, convert
from tfagents_system.core.settings.hyperparameters import check_hyperparameter, hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings

HORIZON = 1000
REMAINING = "env_ctor returns no environment yet"

_PARAMS = '''"""{behavior}: converted from {file} of ML-Agents.

sac train {slug}_variables.sh trains it once env_ctor returns an environment. docs/from_ml_agents.md
tells what learns otherwise here; docs/settings.md lists everything that can be set.
"""

from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    """{behavior}."""

{settings}
{notes}
    def env_ctor(self, *args, seed=None, **kwargs):
        """Returns the environment; each worker makes its own."""
        raise NotImplementedError("return the environment in which the agents of {behavior} act")
'''


@dataclasses.dataclass(frozen=True)
class Project:
    """A converted project."""

    params: str
    config: str
    variables: Mapping[str, str]  # SAC_* by name
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class Sources:
    """The files of ML-Agents that make up a project."""

    trainer: pathlib.Path
    behavior: str | None = None  # None: the only one
    curriculum: pathlib.Path | None = None  # up to 0.16
    sampler: pathlib.Path | None = None  # up to 0.16


def convert_project(sources: Sources, slug: str, horizon: int | None) -> Project:
    """Returns the project `slug`; `horizon` is the number of env steps of an episode.

    Raises:
      ConfigError: If a file cannot be read, a key is unknown or does not exist here, or a value is
        not allowed.
    """
    horizon = horizon or HORIZON
    document = read_document(sources.trainer)
    section = document.section(sources.behavior)
    converted = convert(section, horizon)
    declared = hyperparameters(AgentSettings, TrainingSettings)
    for name, setting in converted.settings.items():
        where = f"{section.where}: {setting.origin}"
        check_hyperparameter(declared, name, setting.value, where)
    notes = converted.notes
    variables = _variables(document, notes)
    curriculum = curriculum_of(
        document, section.behavior, sources.curriculum, sources.sampler, notes
    )
    config: dict[str, Any] = {"horizon": horizon}
    if curriculum:
        config["curriculum"] = curriculum
    behavior = section.behavior.encode("ascii", "replace").decode().replace('"', "'")
    params = _PARAMS.format(
        behavior=behavior.replace("\\", "/"),
        file=sources.trainer.name.replace("\\", "/").replace('"', "'"),
        slug=slug,
        settings=_settings_text(converted),
        notes="".join(f"    # {line}\n" for line in _noted(notes)),
    )
    return Project(params, json.dumps(config, indent=2) + "\n", variables, notes)


def _settings_text(converted: Converted) -> str:
    return "\n".join(
        f"    {name} = {setting.value!r}  # {setting.origin}"
        for name, setting in converted.settings.items()
    )


def _noted(notes: list[str]) -> list[str]:
    """Returns lines of a comment."""
    if not notes:
        return []
    return [
        "Of ML-Agents' configuration, without effect here:",
        *map(" ".join, map(str.split, notes)),
    ]


def _variables(document: Document, notes: list[str]) -> dict[str, str]:
    """Returns what the parts beside the behaviors say of seed and number of environments."""
    found: dict[str, str] = {}
    for part in ("env_settings", "engine_settings", "checkpoint_settings", "torch_settings"):
        where = f"{document.path}: {part}"
        given = mapping(document.beside.get(part), where)
        if part == "env_settings":
            if (seed := given.pop("seed", None)) is not None:
                seed = int(number(seed, f"{where}.seed"))
                found |= {"SAC_SEED": str(seed)} if seed >= 0 else {}
            if (num_envs := given.pop("num_envs", None)) is not None:
                count = int(number(num_envs, f"{where}.num_envs"))
                found["SAC_NUM_COLLECT_WORKERS"] = str(count)
        if given:
            notes.append(f"{part}: {', '.join(given)}")
    if "debug" in document.beside:
        notes.append("debug")
    return found
