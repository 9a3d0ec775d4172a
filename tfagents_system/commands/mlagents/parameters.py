"""Converts environment parameters, curricula and samplers of ML-Agents into our curriculum. Pure.

Up to 0.16 they are separate files: a curriculum for each behavior, or one for all, and a file
of samplers. In 0.17 and 0.18, both are parts of the trainer configuration, with the same keys.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.commands.mlagents.document import Document
from tfagents_system.commands.mlagents.reading import flag, mapping, number, read_mapping
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.curriculum import Curriculum

_OF_CURRICULUM = ("measure", "thresholds", "min_lesson_length", "signal_smoothing", "parameters")
_OF_LESSON = ("name", "value", "completion_criteria")
_OF_CRITERION = (
    "behavior", "measure", "threshold", "min_lesson_length", "signal_smoothing", "require_reset",
)  # fmt: skip
_INTERVAL = ("resampling-interval", "resampling_interval")
# For each sampler: our name, and for each key of ML-Agents our key and the default.
_SAMPLERS: Mapping[str, tuple[str, Mapping[str, tuple[str, Any]]]] = {
    "uniform": ("uniform", {"min_value": ("low", 0.0), "max_value": ("high", 1.0)}),
    "gaussian": ("gaussian", {"mean": ("mean", 1.0), "st_dev": ("std", 1.0)}),
    "multirangeuniform": ("multi_range", {"intervals": ("intervals", [[0.0, 1.0]])}),
    "constant": ("constant", {"value": ("value", None)}),
}


def curriculum_of(
    document: Document,
    behavior: str,
    curriculum: pathlib.Path | None,
    sampler: pathlib.Path | None,
    notes: list[str],
) -> dict[str, Any]:
    """Returns the section `curriculum` of our JSON config.

    Args:
      document: The trainer configuration.
      behavior: Name of the behavior.
      curriculum: File, or folder of a file for each behavior, of a curriculum up to 0.16.
      sampler: File of samplers up to 0.16.
      notes: Receives a note on each setting that has no counterpart here.

    Raises:
      ConfigError: If a key or a value is not allowed.
    """
    beside, path = document.beside, document.path
    found: dict[str, Any] = {}
    samplers = mapping(beside.get("parameter_randomization"), f"{path}: parameter_randomization")
    found |= _samplers(samplers, f"{path}: parameter_randomization", notes)
    if sampler is not None:
        found |= _samplers(read_mapping(sampler), str(sampler), notes)
    curricula = mapping(beside.get("curriculum"), f"{path}: curriculum")
    found |= _of_behavior(curricula, behavior, f"{path}: curriculum", notes)
    if curriculum is not None:
        found |= _from_file(curriculum, behavior, notes)
    return found | parameters_of(document, behavior, notes)


def parameters_of(document: Document, behavior: str, notes: list[str]) -> dict[str, Any]:
    """Returns the entries of `curriculum` for `environment_parameters`; see `curriculum_of`."""
    where = f"{document.path}: environment_parameters"
    parameters = mapping(document.beside.get("environment_parameters"), where)
    return {
        name: _fitting(
            _parameter(entry, f"{where}.{name}", behavior, name, notes), f"{where}.{name}", name
        )
        for name, entry in parameters.items()
    }


def constants_of(curriculum: Mapping[str, Any]) -> dict[str, float]:
    """Returns the parameters of a converted curriculum that are the same number in all episodes."""
    return {
        name: entry["value"]
        for name, entry in curriculum.items()
        if entry.get("sampler") == "constant"
    }


def _fitting(entry: dict[str, Any], where: str, name: str) -> dict[str, Any]:
    """Returns a converted entry; raises ConfigError, with its origin, if its numbers do not fit."""
    Curriculum.from_config({name: entry}, f"{where}, here")
    return entry


def _from_file(path: pathlib.Path, behavior: str, notes: list[str]) -> dict[str, Any]:
    if path.is_dir():
        files = [path / f"{behavior}{end}" for end in (".json", ".yaml", ".yml")]
        existing = [file for file in files if file.exists()]
        if not existing:
            raise ConfigError(f"{path} has no curriculum of {behavior}, such as {files[0].name}.")
        path = existing[0]
    content = read_mapping(path)
    if "measure" in content:  # of one behavior
        return _course(content, str(path), notes)
    return _of_behavior(content, behavior, str(path), notes)


def _of_behavior(
    curricula: Mapping[str, Any], behavior: str, where: str, notes: list[str]
) -> dict[str, Any]:
    others = [name for name in curricula if name != behavior]
    if others:
        notes.append(f"curriculum of {', '.join(others)}: of another behavior; left out")
    if behavior not in curricula:
        return {}
    place = f"{where}.{behavior}"
    return _course(mapping(curricula[behavior], place), place, notes)


def _course(entry: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """Returns the lessons of each parameter; all of them change together, as in ML-Agents."""
    _check(entry, _OF_CURRICULUM, where)
    for key in ("measure", "thresholds", "parameters"):
        if key not in entry:
            raise ConfigError(f"{where} lacks the key {key!r}.")
    thresholds = entry["thresholds"]
    if not isinstance(thresholds, list):
        raise ConfigError(f"{where}.thresholds is {thresholds!r}; expected a list of numbers.")
    criteria = [_criterion({**entry, "threshold": threshold}, where) for threshold in thresholds]
    found = {}
    for name, values in mapping(entry["parameters"], f"{where}.parameters").items():
        if not isinstance(values, list) or len(values) != len(criteria) + 1:
            raise ConfigError(
                f"{where}.parameters.{name} is {values!r}; expected a list of "
                f"{len(criteria) + 1} numbers, one more than thresholds."
            )
        numbers = [number(value, f"{where}.parameters.{name}") for value in values]
        lessons: list[dict[str, Any]] = [{"value": value} for value in numbers]
        for lesson, criterion in zip(lessons[:-1], criteria, strict=True):
            lesson["until"] = criterion
        found[name] = _fitting({"lessons": lessons}, where, name)
    return found


def _criterion(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        "measure": entry.get("measure", "reward"),
        "threshold": number(entry["threshold"], f"{where}.threshold"),
        "min_lesson_length": int(
            number(entry.get("min_lesson_length", 0), f"{where}.min_lesson_length")
        ),
        "signal_smoothing": flag(entry.get("signal_smoothing", True), f"{where}.signal_smoothing"),
    }


def _parameter(
    entry: Any, where: str, behavior: str, name: str, notes: list[str]
) -> dict[str, Any]:
    if isinstance(entry, Mapping) and "curriculum" in entry:
        _check(mapping(entry, where), ("curriculum",), where)
        lessons = entry["curriculum"]
        if not isinstance(lessons, list) or not lessons:
            raise ConfigError(f"{where}.curriculum is {lessons!r}; expected a list of lessons.")
        return {
            "lessons": [
                _lesson(lesson, f"{where}.curriculum.{index}", index == len(lessons) - 1,
                        behavior, name, notes)
                for index, lesson in enumerate(lessons)
            ]
        }  # fmt: skip
    if isinstance(entry, Mapping):
        return _sampler(entry, where, name, notes)
    return {"sampler": "constant", "value": number(entry, where)}


def _lesson(
    entry: Any, where: str, is_last: bool, behavior: str, name: str, notes: list[str]
) -> dict[str, Any]:
    entry = mapping(entry, where)
    _check(entry, _OF_LESSON, where)
    if "value" not in entry:
        raise ConfigError(f"{where} lacks the key 'value'.")
    value, criterion = entry["value"], entry.get("completion_criteria")
    is_sampler = isinstance(value, Mapping)
    lesson: dict[str, Any] = {
        "value": _sampler(value, f"{where}.value", name, notes)
        if is_sampler
        else number(value, f"{where}.value")
    }
    if "name" in entry:
        lesson["name"] = str(entry["name"])
    place = f"{where}.completion_criteria"
    if criterion is None and not is_last:
        raise ConfigError(
            f"{where} lacks the key 'completion_criteria'; only the last lesson has none."
        )
    if criterion is not None and is_last:
        notes.append(f"{name}: the completion_criteria of its last lesson have no effect")
    elif criterion is not None:
        criterion = mapping(criterion, place)
        _check(criterion, _OF_CRITERION, place)
        if "threshold" not in criterion:
            raise ConfigError(f"{place} lacks the key 'threshold'.")
        if (other := criterion.get("behavior", behavior)) != behavior:
            notes.append(f"{name}: a lesson ended by {other}; here it ends by {behavior}")
        if criterion.get("require_reset"):
            notes.append(f"{name}: require_reset; a lesson begins with each worker's next episode")
        lesson["until"] = _criterion(criterion, place)
    return lesson


def _samplers(entries: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    for key in _INTERVAL:
        if (interval := entries.pop(key, None)) is not None:
            notes.append(f"{key} {interval}: values are drawn for each episode of each worker")
    found = {}
    for name, entry in entries.items():
        place = f"{where}.{name}"
        found[name] = _fitting(_sampler(mapping(entry, place), place, name, notes), place, name)
    return found


def _sampler(entry: Mapping[str, Any], where: str, name: str, notes: list[str]) -> dict[str, Any]:
    entry = {key.replace("-", "_"): value for key, value in mapping(entry, where).items()}
    kind = entry.pop("sampler_type", None)
    plain = str(kind).replace("_", "")
    if plain not in _SAMPLERS:
        hint = did_you_mean(str(kind), _SAMPLERS)
        raise ConfigError(
            f"{where}.sampler_type is {kind!r}.{hint} One of your own is the hook "
            "sample_parameter here."
        )
    # In the newest layout; in earlier ones, the numbers are next to the type.
    numbers = entry.pop("sampler_parameters", None)
    given = mapping(numbers, f"{where}.sampler_parameters") | entry
    if (seed := given.pop("seed", None)) is not None:
        notes.append(f"{name}: the seed {seed} of its sampler; here it comes from SAC_SEED")
    ours, keys = _SAMPLERS[plain]
    _check(given, tuple(keys), where)
    result: dict[str, Any] = {"sampler": ours}
    for key, (our_key, default) in keys.items():
        value = given.get(key, default)
        place = f"{where}.{key}"
        result[our_key] = _intervals(value, place) if key == "intervals" else number(value, place)
    return result


def _intervals(value: Any, where: str) -> list[list[float]]:
    if not isinstance(value, list) or not all(isinstance(pair, list) for pair in value):
        raise ConfigError(f"{where} is {value!r}; expected a list of pairs of numbers.")
    return [[number(bound, where) for bound in pair] for pair in value]


def _check(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ConfigError(f"{where} has the unknown key {key!r}.{did_you_mean(key, known)}")
