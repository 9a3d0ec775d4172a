"""Reads and validates the JSON config of an experiment."""

import json
import math
import pathlib
from typing import Any

import jsonschema

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.curriculum import Curriculum

SCHEMA_FILE = pathlib.Path(__file__).with_name("env_config.schema.json")
ENV_CONFIG_KEYS = ("horizon", "curriculum")  # ours; all others are the user's own
MOST_LEVELS = 100  # nested objects and lists; far below Python's limit

# For JSON Schema 200.0 is an integer, but in Python it is a float, which cannot count env steps.
_VALIDATOR = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def load_env_config(path: pathlib.Path) -> dict[str, Any]:
    """Returns the validated config; keys other than `horizon` and `curriculum` are the user's own.

    Raises:
      ConfigError: If the file is missing, is not JSON, repeats a key, or breaks
        `env_config.schema.json`; the message names file, key, value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # allows the byte order mark that Windows adds
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot read the JSON config ({error}). Expected a JSON file such as "
            "config/pendulum.json, which SAC_CONFIG names, or --config of sac eval and sac export."
        ) from error
    try:
        config = json.loads(
            text,
            object_pairs_hook=_reject_repeated_keys,
            parse_constant=_reject_constant,
            parse_float=_finite_float,
        )
        _check_depth(config)
        json.dumps(config, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error}") from error
    validate_env_config(config, str(path))
    return config


def validate_env_config(config: Any, where: str) -> None:
    """Raises ConfigError, prefixed with `where`, unless `config` fits the schema."""
    schema = json.loads(SCHEMA_FILE.read_text())
    error = next(_VALIDATOR(schema).iter_errors(config), None)
    if error is not None:
        key = ".".join(str(part) for part in error.absolute_path) or "the top level"
        if error.validator == "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            allowed = error.schema["properties"][missing]["description"]
            raise ConfigError(f"{where}: {key} lacks the key {missing!r}; expected {allowed}.")
        allowed = error.schema.get("description", error.message)
        raise ConfigError(f"{where}: {key} is {_shown(error.instance)}; expected {allowed}.")
    Curriculum.from_config(config.get("curriculum", {}), where)


def _check_depth(config: Any) -> None:
    level = [config]
    for _ in range(MOST_LEVELS):
        containers = [value for value in level if isinstance(value, (dict, list))]
        level = [
            child
            for value in containers
            for child in (value.values() if isinstance(value, dict) else value)
        ]
    if any(isinstance(value, (dict, list)) for value in level):
        raise ValueError(f"nested deeper than {MOST_LEVELS} levels")


def _shown(value: Any, most: int = 200) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} appears twice in one object")
        result[key] = value
    return result


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a number")
    return value


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
