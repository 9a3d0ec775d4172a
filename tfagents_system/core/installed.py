"""Lists the packages of this Python, and tolerates broken or half-removed ones.

An interrupted pip, a copied environment or a plugin whose package is gone leaves metadata at
which Python's own functions raise. They are not this project's, so they must not stop it.
"""

import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from typing import Any

PLUGINS_OF_GYM = "gym.envs"  # gym 0.23 loads them when it is imported, which TF-Agents does


def versions(name: str) -> list[str]:
    """Returns the versions of the package `name`, in the first folder of sys.path that has any.

    Usually one; several where an update was interrupted; none if it is not installed.
    """
    return [package.version for package in distributions(name)]


def distributions(name: str) -> list[Distribution]:
    """Returns the readable metadata of the package `name`, one for each version; see `versions`."""
    found = [package for package in Distribution.discover(name=name) if _identity(package)]
    # Backports of importlib.metadata, such as setuptools', find each package once more.
    by_version = {p.version: p for p in found if _folder(p) == _folder(found[0])}
    return list(by_version.values())


def all_versions() -> dict[str, str]:
    """Returns the version of each installed package by its name, in the order of sys.path."""
    found: dict[str, str] = {}
    for package in _discover():
        name, version = _identity(package) or ("", "")
        if name:
            found.setdefault(name, version)
    return found


def is_installed(module: str) -> bool:
    """Returns whether the top-level `module` can be found; an empty folder does not count."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # a module made by hand is in sys.modules
        return True
    return spec is not None and spec.loader is not None and spec.origin is not None


def tolerate_broken_plugins() -> None:
    """Makes the search for entry points skip packages that are broken or gone."""
    entry_points = importlib.metadata.entry_points
    if hasattr(entry_points, "__wrapped__"):
        return

    @functools.wraps(entry_points)
    def readable_entry_points(**params: Any) -> Any:
        try:
            found: Any = entry_points(**params)
        except Exception:  # one broken package breaks the whole list
            found = _entry_points(**params)
        if params.get("group") == PLUGINS_OF_GYM:
            found = importlib.metadata.EntryPoints(filter(_can_be_loaded, found))
        return found

    importlib.metadata.entry_points = readable_entry_points  # type: ignore[assignment]  # overloads


def _entry_points(**params: Any) -> importlib.metadata.EntryPoints:
    """Works like `importlib.metadata.entry_points`, but leaves out unreadable entry points."""
    points: list[importlib.metadata.EntryPoint] = []
    for package in _discover():
        try:
            points += package.entry_points if _identity(package) else ()
        except Exception:  # raised by Python's own parser
            continue
    return importlib.metadata.EntryPoints(points).select(**params)


def _can_be_loaded(point: importlib.metadata.EntryPoint) -> bool:
    try:
        point.load()
    except Exception as error:  # any kind: the code is not ours
        print(f"Note: the plugin {point.value} of gym is left out: {error!r}", file=sys.stderr)
        return False
    return True


def _discover() -> Iterator[Distribution]:
    packages = iter(importlib.metadata.distributions())
    while True:
        try:
            yield next(packages)
        except StopIteration:
            return
        except Exception:  # raised by another package's finder, which finds no more
            return


def _identity(package: Distribution) -> tuple[str, str] | None:
    """Returns name and version; None if the metadata cannot be read or lack them."""
    try:
        name, version = package.metadata["Name"], package.version
    except Exception:  # missing, not UTF-8, not readable
        return None
    return (name, version) if name and version else None


def _folder(package: Distribution) -> str:
    return str(package.locate_file(""))
