"""Makes the files of a project from ML-Agents' configuration."""

import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfagents_system.agents.agent_settings import AgentParams, AgentSettings, check_together
from tfagents_system.commands.mlagents.document import (
    Document,
    Section,
    Sources,
    read_document,
)
from tfagents_system.commands.mlagents.parameters import constants_of, curriculum_of
from tfagents_system.commands.mlagents.reading import integer, mapping
from tfagents_system.commands.mlagents.settings import Converted, convert
from tfagents_system.commands.mlagents.unity import BUILD_KEYS, build_settings, with_arguments
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.templates import BASE_IMPORT, construction, variables_text
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import check_hyperparameter, hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings

HORIZON = 1000
_MISSING = 'raise NotImplementedError("return the environment in which the agents of {} act")'

_PARAMS = '''"""{behavior}: converted from {file} of ML-Agents.

sac train {slug}_variables.sh trains it{once}. docs/from_ml_agents.md tells what learns otherwise
here; docs/settings.md lists everything that can be set.
"""

{imports}


class TrainParams(TrainParamsBase):
    """{behavior}."""

{settings}
{notes}
    def env_ctor(self, *args, seed=None, **kwargs):
        """Returns the environment; each worker makes its own."""
        {make}
'''


@dataclasses.dataclass(frozen=True)
class Project:
    """The texts of a converted project's files."""

    params: str
    config: str
    variables: str
    remarks: list[str]  # for the user: settings without effect, and what remains to be done


def convert_project(
    sources: Sources,
    slug: str,
    environment: EnvironmentId | None,
    asked_for: str | None,
    options: EnvironmentOptions,
) -> Project:
    """Returns the project `slug`.

    Args:
      sources: The files of ML-Agents.
      slug: Name of the project.
      environment: The environment in which the agents act; None: the user writes it.
      asked_for: The user's name for it.
      options: The user's options for it.

    Raises:
      ConfigError: If a file cannot be read, a key is unknown or does not exist here, or a value is
        not allowed.
    """
    usual = environment.horizon if environment else HORIZON
    horizon = options.horizon or usual
    document = read_document(sources.trainer)
    is_unity = environment is not None and environment.kind == "unity"
    section = _section(document, sources.behavior, environment if is_unity else None)
    converted = convert(section, horizon)
    _check(converted, section.where, horizon)
    notes = converted.notes
    more = _variables(document, BUILD_KEYS if is_unity else {}, notes)
    curriculum = curriculum_of(
        document, section.behavior, sources.curriculum, sources.sampler, notes
    )
    constants = constants_of(curriculum)
    if is_unity:  # constant parameters are arguments of the build
        curriculum = {name: entry for name, entry in curriculum.items() if name not in constants}
    config: dict[str, Any] = {"horizon": horizon}
    if curriculum:
        config["curriculum"] = curriculum
    behavior = _in_docstring(section.behavior)
    imports, make = BASE_IMPORT, _MISSING.format(behavior)
    if environment:
        arguments = build_settings(document, constants) if is_unity else {}
        imports, make = construction(environment, with_arguments(options, arguments))
        config |= environment.config
    params = _PARAMS.format(
        behavior=behavior, file=_in_docstring(sources.trainer.name), slug=slug, imports=imports,
        once="" if environment else " once env_ctor returns an environment", make=make,
        settings=_settings_text(converted),
        notes="".join(f"    # {line}\n" for line in _noted(notes)),
    )  # fmt: skip
    remarks = [f"Without effect here: {note}." for note in notes]
    if section.behavior not in (*document.sections, document.name_of_default):
        remarks.append(
            f"{document.path} has no section of {section.behavior}; its settings are those of "
            f"{document.name_of_default}."
        )
    if constants and not is_unity:
        remarks.append(
            f"Constant environment_parameters ({', '.join(constants)}) are set in collection alone;"
            " give them to the environment in env_ctor for evaluations."
        )
    if not environment:
        remarks.append(f"What remains: env_ctor in {slug}_params.py returns no environment yet.")
    variables = variables_text(slug, environment, asked_for, options, more)
    return Project(params, json.dumps(config, indent=2) + "\n", variables, remarks)


def _check(converted: Converted, where: str, horizon: int) -> None:
    """Raises ConfigError, with the trainer file's names, for settings that cannot be trained."""
    declared = hyperparameters(AgentSettings, TrainingSettings)
    params = AgentParams({"horizon": horizon})
    for name, setting in converted.settings.items():
        check_hyperparameter(declared, name, setting.value, f"{where}: {setting.origin}")
        setattr(params, name, setting.value)
    try:
        check_together(params, horizon, where)
    except ConfigError as error:
        origins = [
            f"{name} is of {setting.origin}"
            for name, setting in converted.settings.items()
            if re.search(rf"\b{name}\b", str(error))
        ]
        raise ConfigError(
            f"{error} Here, {'; '.join([*origins, f'an episode has {horizon} env steps'])}."
        ) from error


def _section(document: Document, wanted: str | None, build: EnvironmentId | None) -> Section:
    """Returns the section of the wanted behavior; otherwise of a Unity build's, or the only one."""
    if build is None:
        return document.section(wanted)
    name = (wanted or build.config["specs"]["name"]).split("?")[0]
    if name not in document.sections and document.default is None:
        raise ConfigError(
            f"{document.path} has no section of {name}, the behavior of {build}, and no "
            f"{document.name_of_default}; it has {', '.join(document.sections)}. Rename a section, "
            "or choose both: --behavior SECTION --env_kwargs behavior=NAME."
        )
    return document.section(name)


def _in_docstring(text: str) -> str:
    """Returns a text from an ML-Agents file, escaped for a docstring of ours."""
    plain = text.encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else "?" for c in plain).translate({34: "'", 92: "/"})


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


def _variables(
    document: Document, elsewhere: Mapping[str, Collection[str]], notes: list[str]
) -> dict[str, str]:
    """Returns the seed and number of environments from the parts next to the behaviors.

    Notes the rest, except the keys of each part that have an effect `elsewhere`.
    """
    found: dict[str, str] = {}
    for part in ("env_settings", "engine_settings", "checkpoint_settings", "torch_settings"):
        where = f"{document.path}: {part}"
        given = mapping(document.beside.get(part), where)
        if part == "env_settings":
            if (seed := given.pop("seed", None)) is not None:
                seed = integer(-1, 2**32 - 1, seed, f"{where}.seed")
                found |= {"SAC_SEED": str(seed)} if seed >= 0 else {}
            if (num_envs := given.pop("num_envs", None)) is not None:
                count = integer(1, 4096, num_envs, f"{where}.num_envs")
                found["SAC_NUM_COLLECT_WORKERS"] = str(count)
        if rest := [key for key in given if key not in elsewhere.get(part, ())]:
            notes.append(f"{part}: {', '.join(rest)}")
    if "debug" in document.beside:
        notes.append("debug")
    return found
