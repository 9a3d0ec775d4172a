"""Compares an experiment's earlier settings with those requested now."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.gin_bindings import parse_binding
from tfagents_system.core.settings.variables import GIN_BINDINGS, Settings
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.experiment.initial_weights import may_name

NOT_SET = "not set"


def check_is_same(
    paths: ExperimentPaths, environ: Mapping[str, str], may_be_extended: bool = False
) -> None:
    """Raises ConfigError if the experiment was started with other settings, files or weights.

    It also raises if the experiment's config is damaged.

    Args:
      paths: Paths of an existing experiment.
      environ: The SAC_* variables of the new start.
      may_be_extended: Whether it may have trained more iterations than are requested now.
    """
    settings, saved = Settings.from_environ(environ), experiment.read_saved(paths)
    before, now = _values(saved["gin_bindings"]), _values(settings.gin_bindings)
    if may_be_extended and "num_iter" in before:
        now["num_iter"] = max(now.get("num_iter", 0), before["num_iter"])
    texts = [
        f"{name} was {before.get(name, NOT_SET)} and is {now.get(name, NOT_SET)} now"
        for name in sorted(before.keys() | now.keys())
        if before.get(name, NOT_SET) != now.get(name, NOT_SET)
    ]
    if settings.params.is_file() and settings.params.read_bytes() != paths.params.read_bytes():
        texts.append(f"{settings.params} differs from {paths.params}")
    keys = experiment.differing_keys(
        load_env_config(paths.config), load_env_config(settings.config)
    )
    if keys:
        texts.append(f"{settings.config} differs from {paths.config} in {', '.join(keys)}")
    if (text := settings.initialize_from) and not may_name(text, saved["initialized_from"]):
        began = saved["initialized_from"] or "random ones"
        texts.append(f"its weights began as {began}, and --initialize_from is {text} now")
    if texts:
        raise ConfigError(
            f"{paths.root} was trained with other settings: {'; '.join(texts)}. Its results would "
            "count for these. Choose another --name, or give the settings it has."
        )


def _values(bindings: Sequence[str]) -> dict[str, Any]:
    """Returns the last value bound to each name."""
    parsed = (parse_binding(binding, GIN_BINDINGS) for binding in bindings)
    return {binding.name: binding.value for binding in parsed}
