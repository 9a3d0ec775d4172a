"""Runs every benchmark program, ours or a peer's: clean ends and JSON lines."""

import importlib.metadata
import json
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tfagents_system.core.programs.command_line import run_tool

PACKAGES = (
    "tensorflow", "tf-agents", "dm-reverb", "stable-baselines3", "sbx-rl", "torch", "jax",
    "gym", "gymnasium", "pybullet", "numpy",
)  # fmt: skip


def run(main: Callable[..., None]) -> NoReturn:
    """Runs `main` with the arguments of the command line.

    SIGTERM becomes an exception, so that `main` ends what it has started.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    run_tool(main, sys.argv)


def print_result(metric: str, value: float | None, unit: str, **fields: Any) -> None:
    """Prints one line; a `value` of None means that the level was not reached.

    Args:
      metric: Name with its unit, such as `env_steps_per_sec`.
      value: The measured number.
      unit: For `1/s`, `%` and `return`, higher is better; for all others, lower.
      **fields: Additional fields of this value.
    """
    record = {"metric": metric, "value": value, "unit": unit} | fields
    print(json.dumps(record | {"versions": versions()}), flush=True)


def versions() -> dict[str, str]:
    """Returns the versions of those of PACKAGES that are installed here."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
