"""Checks the installed packages against the lock files and what TensorFlow can work with.

Example: python -m tfagents_system.launch.packages base.lock

setup.sh asks it whether an active environment fits: exit code 0, or 78 and what is wrong. Reads the
packages' metadata only; none is imported.
"""

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from tfagents_system.core.command_line import OneOf, run_tool
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.installed import distributions, versions

LOCKS = pathlib.Path(__file__).parents[2] / "locks"
LOCK_NAMES = sorted(path.name for path in LOCKS.glob("*.lock"))
LOCKED_TOGETHER = ("tensorflow", "tf-agents", "dm-reverb")  # each only fits these of the others
# TF-Agents asks for exactly 4.5.0, without need: see override-dependencies in pyproject.toml.
NOT_HELD_TO = {("tf-agents", "typing-extensions")}


def check_packages(locks: Sequence[pathlib.Path] = (LOCKS / "base.lock",)) -> None:
    """Raises a ConfigError that names each package that is missing or breaks TensorFlow.

    Other versions than the locked ones are allowed, as far as TensorFlow, TF-Agents and Reverb
    declare to work with them; of these three themselves, only the locked ones. Where pip has
    installed this project into an environment, there are no lock files: the three are as pip has
    chosen them, what they need may have been changed since.
    """
    locks = [path for path in locks if path.exists()]
    locked = {name: version for path in locks for name, version in _read_lock(path)}
    missing = [name for name in locked if not versions(name)]
    other = {
        name: f"{name} {' and '.join(found)} is not the locked {locked[name]}"
        for name in LOCKED_TOGETHER
        if name in locked and (found := versions(name)) and locked[name] not in found
    }
    unfit = {need.name: need for need in _unmet_needs() if need.name not in missing}
    if not missing and not other and not unfit:
        return
    problems = [*other.values(), *(need.problem for need in unfit.values()), *_in_short(missing)]
    pins = [
        f"{name}=={locked[name]}" if name in locked else unfit[name].requirement
        for name in dict.fromkeys((*other, *unfit, *missing))
    ]
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


@dataclasses.dataclass(frozen=True)
class _UnmetNeed:
    """A package in a version that TensorFlow, TF-Agents or Reverb cannot work with."""

    name: str
    requirement: str  # what would do
    problem: str


def _unmet_needs() -> Iterator[_UnmetNeed]:
    for dependent in LOCKED_TOGETHER:
        of_dependent = distributions(dependent)
        for text in (of_dependent[0].requires or ()) if of_dependent else ():
            requirement = Requirement(text)
            name = requirement.name.lower().replace("_", "-")
            if (dependent, name) in NOT_HELD_TO or not _holds(requirement):
                continue
            found = versions(name)
            if found and not any(_satisfies(version, requirement) for version in found):
                problem = (f"{name} {' and '.join(found)}, but {dependent} needs "
                           f"{requirement.specifier}")  # fmt: skip
                yield _UnmetNeed(name, f"{name}{requirement.specifier}", problem)


def _holds(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _satisfies(version: str, requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:  # of somebody's own build: nothing says that it does not
        return True


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
