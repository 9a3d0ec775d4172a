"""Distinguishes a checkout of this project, with its scripts, from an installed package."""

import pathlib
import re
import shlex
import sys

from tfagents_system.core.installed import distributions, versions

NAME = "tfagents_system"
PROJECT = pathlib.Path(__file__).parents[2]  # site-packages if pip has installed it


def is_checkout(project: pathlib.Path = PROJECT) -> bool:
    """Returns whether the package lies in a checkout, with the scripts and lock files around it."""
    return _version_in(project) is not None


def version(project: pathlib.Path = PROJECT) -> str:
    """Returns the version: from pyproject.toml in a checkout, from pip for an installed package."""
    return _version_in(project) or (versions(NAME) or ["unknown"])[0]


def how_to_install(extra: str, project: pathlib.Path = PROJECT) -> str:
    """Returns the command that installs the packages of an extra of pyproject.toml."""
    if is_checkout(project):
        return f"./setup.sh --with {extra}"
    requires = [text for package in distributions(NAME)[:1] for text in package.requires or ()]
    needs = (text.partition(";") for text in requires)
    packages = [need.strip() for need, _, marker in needs if extra in _extras_in(marker)]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def _version_in(project: pathlib.Path) -> str | None:
    """Returns the version in the project's own pyproject.toml; None if there is none."""
    try:
        text = (project / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    found = re.search(r'^version = "(.*)"$', text, re.MULTILINE)
    return found[1] if found and f'name = "{NAME}"\n' in text else None


def _extras_in(marker: str) -> set[str]:
    """Returns the extras that the marker of a requirement names, as pyproject.toml spells them."""
    return {name.replace("-", "_") for name in re.findall("extra == [\"']([^\"']*)", marker)}
