"""Checks the installed packages against the lock files and what TensorFlow can work with.

Example: python -m tfagents_system.launch.packages base.lock

setup.sh asks it whether an active environment fits: exit code 0, or 78 and what is wrong. Reads the
packages' metadata only; none is imported.
"""

import pathlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Annotated

from packaging.requirements import Requirement

from tfagents_system.core.command_line import OneOf, run_tool
from tfagents_system.core.errors import ConfigError

LOCKS = pathlib.Path(__file__).parents[2] / "locks"
LOCK_NAMES = sorted(path.name for path in LOCKS.glob("*.lock"))
LOCKED_TOGETHER = ("tensorflow", "tf-agents", "dm-reverb")  # each only fits these of the others
# TF-Agents asks for exactly 4.5.0, without need: see override-dependencies in pyproject.toml.
NOT_HELD_TO = {("tf-agents", "typing-extensions")}


def check_packages(locks: Sequence[pathlib.Path] = (LOCKS / "base.lock",)) -> None:
    """Raises a ConfigError that names each package that is missing or breaks TensorFlow.

    Other versions than the locked ones are allowed, as far as TensorFlow, TF-Agents and Reverb
    declare to work with them; of these three themselves, only the locked ones. Without the lock
    files, as where pip has installed this project into an environment, pip has seen to that.
    """
    locks = [path for path in locks if path.exists()]
    locked = {name: version for path in locks for name, version in _read_lock(path)}
    installed = {name: found for name in locked if (found := _find(name)) is not None}
    missing = [name for name in locked if name not in installed]
    wrong = {
        name: f"{name} {installed[name].version} is not the locked {locked[name]}"
        for name in LOCKED_TOGETHER
        if name in installed and installed[name].version != locked[name]
    } | _unfit(installed)
    if not missing and not wrong:
        return
    problems = [*wrong.values(), *_in_short(missing)]
    pins = [f"{name}=={locked[name]}" for name in (*wrong, *missing)]
    if len(pins) > 10:
        pins = [argument for path in locks for argument in ("-r", str(path))]
    command = shlex.join([sys.executable, "-m", "pip", "install", "--no-deps", *pins])
    raise ConfigError(
        f"The packages in {sys.prefix} do not work together: {'; '.join(problems)}.\n"
        f"This mends them: {command}"
    )


def _read_lock(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields name and version of each pin that is meant for this system and Python."""
    for line in path.read_text(encoding="utf-8").splitlines():
        pin, _, marker = line.partition(" ; ")
        name, _, version = pin.partition("==")
        if version and (not marker or _holds(Requirement(line))):
            yield name, version


def _unfit(installed: Mapping[str, Distribution]) -> dict[str, str]:
    """What is wrong with each of the `installed` packages that TensorFlow cannot work with."""
    unfit = {}
    for dependent in LOCKED_TOGETHER:
        for text in (installed[dependent].requires or ()) if dependent in installed else ():
            requirement = Requirement(text)
            name = requirement.name.lower().replace("_", "-")
            if (dependent, name) in NOT_HELD_TO or name not in installed or not _holds(requirement):
                continue
            version = installed[name].version
            if not requirement.specifier.contains(version, prereleases=True):
                unfit[name] = f"{name} {version}, but {dependent} needs {requirement.specifier}"
    return unfit


def _holds(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _in_short(missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return [f"not installed: {', '.join(missing[:3])}{more}"]


def main(locks: Annotated[tuple[str, ...], OneOf(LOCK_NAMES)] = ("base.lock",), /) -> None:
    """Checks lock files.

    Args:
      locks: Names of lock files.
    """
    check_packages([LOCKS / name for name in locks])


if __name__ == "__main__":
    run_tool(main, sys.argv)
