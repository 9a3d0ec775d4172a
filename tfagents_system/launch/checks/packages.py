"""Checks the installed packages against the lock files and what TensorFlow can work with.

Example: python -m tfagents_system.launch.checks.packages base.lock

setup.sh calls it to check an active environment: exit code 0, or 78 with what is wrong. Reads only
the packages' metadata; imports none.
"""

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from tfagents_system.core.checkout import NAME, PROJECT
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.installed import distributions, versions
from tfagents_system.core.programs.command_line import OneOf, run_tool

LOCKS = PROJECT / "locks"
LOCK_NAMES = sorted(path.name for path in LOCKS.glob("*.lock"))
LOCKED_TOGETHER = ("tensorflow", "tf-agents", "dm-reverb")  # their versions must match
# TF-Agents pins both needlessly: see override-dependencies in pyproject.toml.
NOT_HELD_TO = {("tf-agents", "typing-extensions"), ("tf-agents", "pygame")}
NOT_MISSED = {"pygame"}  # only windows need it, and pygame-ce may take its place


def check_packages(locks: Sequence[pathlib.Path] = (LOCKS / "base.lock",)) -> None:
    """Raises a ConfigError that names each package that is missing or breaks TensorFlow.

    Other versions than the locked ones are allowed if TensorFlow, TF-Agents and Reverb declare that
    they work with them; these three must have the locked versions. If pip has installed this
    project, there are no lock files: then its declared dependencies must be installed.
    """
    locks = [path for path in locks if path.exists()]
    locked = {name: version for path in locks for name, version in read_lock(path)}
    needs = list(needs_of(LOCKED_TOGETHER if locks else (*LOCKED_TOGETHER, NAME)))
    wanted = locked if locks else [need.name for need in needs if need.dependent == NAME]
    missing = [name for name in wanted if name not in NOT_MISSED and not versions(name)]
    other = {
        name: f"{name} {' and '.join(found)} is not the locked {locked[name]}"
        for name in LOCKED_TOGETHER
        if name in locked and (found := versions(name)) and locked[name] not in found
    }
    unfit = {need.name: need for need in needs if need.problem}
    if not missing and not other and not unfit:
        return
    problems = [*other.values(), *(str(need.problem) for need in unfit.values()),
                *_in_short(missing)]  # fmt: skip
    texts = {need.name: need.text for need in (*reversed(needs), *unfit.values())}
    pins = [
        f"{name}=={locked[name]}" if name in locked else texts[name]
        for name in dict.fromkeys((*other, *unfit, *missing))
    ]
    if locks and len(pins) > 10:
        pins = [argument for path in locks for argument in ("-r", str(path))]
    if locks or not missing:
        pins.insert(0, "--no-deps")
    command = shlex.join([sys.executable, "-m", "pip", "install", *pins])
    raise ConfigError(
        f"The packages in {sys.prefix} do not work together: {'; '.join(problems)}.\n"
        f"This repairs them: {command}"
    )


def read_lock(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields name and version of each pin of a lock file for this system and Python."""
    for line in path.read_text(encoding="utf-8").splitlines():
        pin, _, marker = line.partition(" ; ")
        name, _, version = pin.partition("==")
        if version and not line.startswith("#") and (not marker or applies(Requirement(line))):
            yield name, version


@dataclasses.dataclass(frozen=True)
class Need:
    """A package's declared dependency, on this system and Python."""

    dependent: str
    name: str
    text: str  # the name, and the allowed versions
    problem: str | None  # also None if nothing is installed


def needs_of(dependents: Sequence[str]) -> Iterator[Need]:
    """Yields the needs that the installed ones of the packages `dependents` declare and have."""
    for dependent in dependents:
        of_dependent = distributions(dependent)
        for text in (of_dependent[0].requires or ()) if of_dependent else ():
            requirement = Requirement(text)
            name = requirement.name.lower().replace("_", "-")
            if (dependent, name) in NOT_HELD_TO or not applies(requirement):
                continue
            found, fitting, problem = versions(name), requirement.specifier, None
            if found and not any(satisfies(version, requirement) for version in found):
                problem = f"{name} {' and '.join(found)}, but {dependent} needs {fitting}"
            yield Need(dependent, name, f"{name}{fitting}", problem)


def applies(requirement: Requirement) -> bool:
    """Returns whether the requirement is for this system and Python, without extras."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def satisfies(version: str, requirement: Requirement) -> bool:
    """Returns whether the requirement allows the version."""
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:  # somebody's own build, of which nothing is known
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
