"""Names the locked packages that the user has installed in other versions; setup.sh keeps those.

Example: python -m tfagents_system.launch.checks.own_versions base.lock mujoco.lock
Example: python -m tfagents_system.launch.checks.own_versions --installed base.lock mujoco.lock

setup.sh calls it in .venv before it installs lock files: stdout has the names to leave out, stderr
a sentence on each package that differs. After the installation, `--installed` names the packages
of the lock files that do not work with the kept versions. Reads only the packages' metadata.
"""

import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from packaging.requirements import Requirement

from tfagents_system.core.installed import versions
from tfagents_system.core.programs.command_line import OneOf, run_tool
from tfagents_system.launch.checks.packages import (
    LOCK_NAMES,
    LOCKS,
    applies,
    needs_of,
    read_lock,
    satisfies,
)

CONSTRAINTS = LOCKS / "constraints.txt"
MARKS = LOCKS.parent / ".venv"  # .lock-NAME is a copy of the installed NAME.lock


def own_versions(pins: Mapping[str, str], installed_pins: Mapping[str, str]) -> dict[str, str]:
    """Returns the installed version of each package for which the user chose another version.

    Args:
      pins: Locked version by name, to be installed.
      installed_pins: The same at the last installation; the user did not choose these versions.
    """
    found = {name: versions(name) for name in pins}
    return {
        name: found[name][0]
        for name, pin in pins.items()
        if found[name] and not {pin, installed_pins.get(name)} & set(found[name])
    }


def constraint_on(name: str, version: str, constraints: pathlib.Path = CONSTRAINTS) -> str | None:
    """Returns the versions that learning needs of the package, if `version` is not one of them."""
    for line in constraints.read_text(encoding="utf-8").splitlines():
        constraint = Requirement(line) if line and not line.startswith("#") else None
        if constraint and constraint.name == name and applies(constraint):
            return None if satisfies(version, constraint) else str(constraint.specifier)
    return None


def _pins(paths: Sequence[pathlib.Path]) -> dict[str, str]:
    return {name: version for path in paths for name, version in read_lock(path)}


def _conflicts(pins: Mapping[str, str], own: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence on each need of the packages in `pins` that a version of `own` breaks."""
    for need in needs_of(list(pins)):
        if need.problem and need.name in own:
            yield (
                f"{need.problem}. For {need.dependent}: .venv/bin/pip install "
                f"{need.name}=={pins[need.name]}"
            )


def main(
    locks: Annotated[tuple[str, ...], OneOf(LOCK_NAMES)] = ("base.lock",),
    /,
    installed: bool = False,
) -> None:
    """Compares installed packages with lock files.

    Args:
      locks: Names of lock files.
      installed: Whether they are installed, apart from the kept versions.
    """
    pins = _pins([LOCKS / name for name in locks])
    own = own_versions(pins, _pins(sorted(MARKS.glob(".lock-*"))))
    if installed:
        for sentence in _conflicts(pins, own):
            print(f"setup: {sentence}", file=sys.stderr)
        return
    for name, version in own.items():
        if needed := constraint_on(name, version):
            print(
                f"setup: installing {name} {pins[name]} in place of your {version}, with which "
                f"learning does not work: it needs {needed} (locks/constraints.txt)",
                file=sys.stderr,
            )
        else:
            print(
                f"setup: keeping your {name} {version}; locked is {pins[name]} "
                f"(.venv/bin/pip install {name}=={pins[name]})",
                file=sys.stderr,
            )
            print(name)


if __name__ == "__main__":
    run_tool(main, sys.argv)
