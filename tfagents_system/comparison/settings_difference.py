"""Finds the settings in which experiments differ."""

from collections.abc import Iterable, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths

# Keys of provenance.json; the others belong to one start or seed, or are also in run_spec.json.
_PROVENANCE = (
    "deterministic", "initialized_from", "version", "git_hash", "params_git_hash", "python", "host",
    "cpu_model", "packages",
)  # fmt: skip
_NOT_SETTINGS = ("seed", "gin_bindings")  # of run_spec.json; bindings show in the settings


def read_settings(paths: ExperimentPaths) -> dict[str, Any]:
    """Returns the values that determine an experiment, except the seed, by name.

    It comes from run_spec.json and provenance.json; a missing file is skipped.

    Raises:
      ConfigError: If one of them is damaged.
    """
    found: dict[str, Any] = {}
    for path in (paths.run_spec, paths.provenance):
        try:
            record = read_json(path)
            if record is None:
                continue
            if path == paths.provenance:
                record = {key: record[key] for key in _PROVENANCE if key in record}
            for key, value in record.items():
                if key in _NOT_SETTINGS:
                    continue
                nested = value if key in ("settings", "packages", "files") else None
                prefix = "" if key == "settings" else f"{key} "
                found |= {prefix + n: v for n, v in nested.items()} if nested else {key: value}
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{path}: damaged ({error}). Repair it or move it away.") from error
    return found


def settings_differences(
    groups: Sequence[Sequence[ExperimentPaths]],
) -> list[tuple[str, list[str]]]:
    """Returns (name, values of each group) for each setting that differs between groups.

    Values are Python literals. Several values of a group are joined by " or "; "-" means none.
    """
    records = [
        [{name: repr(value) for name, value in read_settings(paths).items()} for paths in group]
        for group in groups
    ]
    names = dict.fromkeys(name for group in records for record in group for name in record)
    differences = []
    for name in names:
        values = [{record.get(name, "-") for record in group} for group in records]
        if any(of_group != values[0] for of_group in values):
            differences.append((name, [_listed(name, of_group) for of_group in values]))
    return differences


def _listed(name: str, values: Iterable[str]) -> str:
    """Returns the values of a setting in a group; file hashes are shortened."""
    is_hash = name.startswith("files ")
    return " or ".join(f"sha256 {v[1:9]}" if is_hash and v != "-" else v for v in sorted(values))
