"""Finds imports of a params file that cannot work, without executing any module.

It only looks for packages; Python reports names missing in a package when a program starts.
"""

import ast
import contextlib
import importlib.machinery
import pathlib
import re
import sys
import sysconfig
from collections.abc import Sequence

from tfagents_system.core.errors import ConfigError

PACKAGE = pathlib.Path(__file__).parents[2]  # this project's package
STDLIB = {pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
# Marks of source code that, when executed, makes modules or changes where they are found.
MAKES_MODULES = re.compile(r"\bsys\.(modules|path|meta_path|path_hooks)\b|\baddsitedir\b")


def check_imports(
    tree: ast.Module, path: pathlib.Path, import_dirs: Sequence[pathlib.Path]
) -> list[str]:
    """Checks the imports at the top level of the params file `path`.

    Returns:
      Notes on the user's modules with names of installed ones.

    Raises:
      ConfigError: If a module is certainly missing; the message names file and line.
    """
    finder = ModuleFinder(import_dirs)
    notes = []
    sources = [path]  # user code that runs before a statement
    for statement in tree.body:
        where = f"{path}:{statement.lineno}"
        if isinstance(statement, ast.ImportFrom) and statement.level:
            raise ConfigError(
                f"{where}: {ast.unparse(statement)}: a params file is not part of a package; "
                "import its neighbours by their plain names."
            )
        for package in _packages(statement):
            found = finder.find(package)
            if found is not None and found.origin and finder.is_users(found):
                sources.append(pathlib.Path(found.origin))
            elif places := finder.rivals(package):
                notes.append(
                    f"{where}: imports {package}, which is {places[0]} and installed as "
                    f"{places[1]}. A program that has loaded the installed one gives you that: "
                    "yours needs another name."
                )
            elif found is None and not (
                package in sys.modules or any(map(_may_make_modules, sources))
            ):
                raise ConfigError(
                    f"{where}: imports {package}, which is neither installed in this Python "
                    f"({sys.prefix}) nor in {', '.join(map(str, import_dirs))}."
                )
    return notes


def _packages(statement: ast.stmt) -> list[str]:
    """Returns the top-level names of a statement's imported modules."""
    names = []
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    return [name.partition(".")[0] for name in names]


def _may_make_modules(source: pathlib.Path) -> bool:
    try:
        return MAKES_MODULES.search(source.read_text(errors="replace")) is not None
    except OSError:  # in a zip file, for example
        return True


class ModuleFinder:
    """Finds modules as the programs will, only on disk."""

    def __init__(self, import_dirs: Sequence[pathlib.Path]):
        self._own = [str(folder) for folder in import_dirs]

    def find(self, package: str) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a top-level module; None if it is missing or uncertain."""
        folders = [*self._own_for(package), *sys.path]
        return None if self.rivals(package) else _find(package, folders)

    def rivals(self, package: str) -> tuple[str, str] | None:
        """Returns the files of a user's and an installed module of this name; None unless both."""
        own = self._own_for(package)
        beside = importlib.machinery.PathFinder.find_spec(package, own)
        installed = _find(package, sys.path)
        first, second = (spec.origin if spec else None for spec in (beside, installed))
        return (first, second) if first and second and first != second else None

    def find_in(
        self, package: importlib.machinery.ModuleSpec, package_name: str, name: str
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of the module `name` in `package`; None if it is not on disk."""
        locations = package.submodule_search_locations
        return _find(f"{package_name}.{name}", list(locations)) if locations else None

    def is_users(self, spec: importlib.machinery.ModuleSpec) -> bool:
        """Returns whether the module is the user's: not Python's, not installed, not ours."""
        places = _places(spec)
        return (
            bool(places)
            and not any({"site-packages", "dist-packages"} & set(place.parts) for place in places)
            and not any(
                place.is_relative_to(folder) for folder in (*STDLIB, PACKAGE) for place in places
            )
        )

    def _own_for(self, package: str) -> list[str]:
        """Returns the user's folders in which a module may have the name `package`."""
        is_taken = package in sys.stdlib_module_names or package == PACKAGE.name
        return [] if is_taken else self._own


def _find(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Searches as Python's import does, but only for the module `name` in `folders`."""
    path = folders if "." in name else None
    for finder in sys.meta_path:
        spec = None
        if finder is importlib.machinery.PathFinder:
            # With its full name, a namespace package would look for its parent in sys.modules.
            spec = importlib.machinery.PathFinder.find_spec(name.rpartition(".")[2], folders)
        else:  # finders of built-in modules, editable installs, others
            with contextlib.suppress(Exception):
                spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


def _places(spec: importlib.machinery.ModuleSpec) -> list[pathlib.Path]:
    origin = [spec.origin] if spec.has_location and spec.origin else []
    return list(map(pathlib.Path, [*(spec.submodule_search_locations or []), *origin]))
