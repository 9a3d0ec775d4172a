"""Finds imports of a params file that cannot work, without executing any module.

What may work passes: a module can make others when it is executed.
"""

import ast
import contextlib
import importlib.machinery
import pathlib
import pkgutil
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import nearest_name
from tfagents_system.core.settings.attribute_names import is_typing_error

PACKAGE = pathlib.Path(__file__).parents[2]  # of this project
OURS = PACKAGE.name
STDLIB = {pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
# What a source mentions that makes modules, or lets others be found, when it is executed.
MAKES_MODULES = re.compile(
    r"\b(sys\.(modules|path|meta_path|path_hooks)|__path__|declare_namespace|addsitedir)\b"
)


def check_imports(
    tree: ast.Module, path: pathlib.Path, import_dirs: Sequence[pathlib.Path]
) -> list[str]:
    """Checks the imports that stand at the top level of the params file `path`.

    Returns:
      Notes on modules of the user's whose names are those of installed ones.

    Raises:
      ConfigError: If a module is surely missing, or a name of a module of the user's or of ours;
        the message names file and line.
    """
    finder = ModuleFinder(import_dirs)
    notes = []
    is_complete = not finder.may_make_modules(path)  # what is on disk now is all that there will be
    for statement in tree.body:
        where = f"{path}:{statement.lineno}"
        if isinstance(statement, ast.ImportFrom) and statement.level:
            raise ConfigError(
                f"{where}: {ast.unparse(statement)}: a params file is not part of a package; "
                "import its neighbours by their plain names."
            )
        for name in _modules(statement):
            if is_complete:
                _check_module(name, finder, where)
                if isinstance(statement, ast.ImportFrom):
                    _check_names(name, [a.name for a in statement.names], finder, where)
            package = name.partition(".")[0]
            found = finder.find(package)
            if found is not None and finder.is_own(found):
                is_complete = is_complete and finder.shows_all_modules(found)
            elif found is None and (places := finder.rivals(package)):
                notes.append(
                    f"{where}: imports {package}, which is {places[0]} and installed as "
                    f"{places[1]}. A program that has loaded the installed one gives you that: "
                    "yours needs another name."
                )
    return notes


def _modules(statement: ast.stmt) -> list[str]:
    """Returns the full names of the modules that a statement imports."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []


def _check_module(name: str, finder: "ModuleFinder", where: str) -> None:
    """Refuses `name` if its package is missing, or a submodule that nothing can make."""
    package, *submodules = name.split(".")
    found = finder.find(package)
    if found is None:
        if finder.is_known(package):
            return
        raise ConfigError(
            f"{where}: imports {package}, which is neither installed in this Python "
            f"({sys.prefix}) nor in {', '.join(map(str, finder.import_dirs))}."
        )
    for submodule in submodules:
        if not finder.shows_all_modules(found):
            return
        inner = finder.find_in(found, package, submodule)
        if inner is None:
            raise ConfigError(
                f"{where}: imports {name}, but {package} ({_place(found)}) has no module "
                f"{submodule}.{_module_hint(package, submodule, found)}"
            )
        package, found = f"{package}.{submodule}", inner


def _check_names(name: str, wanted: Iterable[str], finder: "ModuleFinder", where: str) -> None:
    """Refuses what `from name import wanted` cannot find in a module of the user's or of ours."""
    package, *submodules = name.split(".")
    found = None if package in sys.stdlib_module_names else finder.find(package)
    for submodule in submodules:
        if found is None:
            return
        package, found = f"{package}.{submodule}", finder.find_in(found, package, submodule)
    if found is None or not (finder.is_own(found) and finder.shows_all_modules(found)):
        return
    bound = _bound_names(found)
    if bound is None:
        return
    bound |= _submodules(found)
    for each in wanted:
        if each not in bound and each != "*":
            raise ConfigError(
                f"{where}: imports {each} from {name} ({_place(found)}), which has no such name."
                f"{_hint(each, bound)}"
            )


class ModuleFinder:
    """Finds modules as the programs will, on disk alone."""

    def __init__(self, import_dirs: Sequence[pathlib.Path]):
        self.import_dirs = import_dirs

    def find(self, package: str) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a top-level module; None if it is missing or not surely this one."""
        own = [str(folder) for folder in self.import_dirs]
        if package in sys.stdlib_module_names:
            own = []  # a neighbour of that name does not replace it
        specs = [_find(package, folders) for folders in ([*own, *sys.path], own, sys.path)]
        origins = {spec.origin for spec in specs if spec is not None}
        return specs[0] if len(origins) == 1 else None

    def rivals(self, package: str) -> tuple[str, str] | None:
        """Returns the places of a user's and an installed module of this name; None without."""
        if package in sys.stdlib_module_names or package == OURS:
            return None
        own = [str(folder) for folder in self.import_dirs]
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

    def is_known(self, package: str) -> bool:
        """Returns whether a top-level module of this name is there at all."""
        own = [str(folder) for folder in self.import_dirs]
        is_loaded = package in sys.stdlib_module_names or package in sys.modules
        return is_loaded or _find(package, [*own, *sys.path]) is not None

    def is_own(self, spec: importlib.machinery.ModuleSpec) -> bool:
        """Returns whether it is not installed, but in a folder of the user's or of this project."""
        places = _places(spec)
        return (
            bool(places)
            and not _is_installed(places)
            and all(
                any(place.is_relative_to(folder) for folder in (*self.import_dirs, PACKAGE))
                for place in places
            )
        )

    def is_users(self, spec: importlib.machinery.ModuleSpec) -> bool:
        """Returns whether the module is neither Python's, nor installed, nor of this project."""
        places = _places(spec)
        return (
            bool(places)
            and not _is_installed(places)
            and not any(
                place.is_relative_to(folder) for folder in (*STDLIB, PACKAGE) for place in places
            )
        )

    def shows_all_modules(self, spec: importlib.machinery.ModuleSpec) -> bool:
        """Returns whether executing the module surely makes no other than those on disk."""
        if spec.origin is None:  # a namespace package, to which anyone may add a folder
            return self.is_own(spec)
        is_plain = isinstance(spec.loader, importlib.machinery.SourceFileLoader)  # no one's own
        return is_plain and not self.may_make_modules(pathlib.Path(spec.origin))

    def may_make_modules(self, source: pathlib.Path) -> bool:
        """Returns whether the module in the file `source` may make others, or let them be found."""
        try:
            return MAKES_MODULES.search(source.read_text(errors="replace")) is not None
        except OSError:  # in a zip file, for example
            return True


def _find(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Asks what Python's import asks, but for the module `name` in `folders` alone."""
    path = folders if "." in name else None
    for finder in sys.meta_path:
        spec = None
        if finder is importlib.machinery.PathFinder:
            # The full name of a namespace package would look for its parent in sys.modules.
            spec = importlib.machinery.PathFinder.find_spec(name.rpartition(".")[2], folders)
        else:  # of built-in modules, editable installs, anyone
            with contextlib.suppress(Exception):
                spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


def _places(spec: importlib.machinery.ModuleSpec) -> list[pathlib.Path]:
    origin = [spec.origin] if spec.has_location and spec.origin else []
    return list(map(pathlib.Path, [*(spec.submodule_search_locations or []), *origin]))


def _is_installed(places: Iterable[pathlib.Path]) -> bool:
    return any({"site-packages", "dist-packages"} & set(place.parts) for place in places)


def _submodules(spec: importlib.machinery.ModuleSpec) -> set[str]:
    locations = spec.submodule_search_locations or []
    folders = (p.name for place in locations for p in pathlib.Path(place).glob("*") if p.is_dir())
    return {module.name for module in pkgutil.iter_modules(list(locations))} | set(folders)


def _bound_names(spec: importlib.machinery.ModuleSpec) -> set[str] | None:
    """Returns the names that the module's source binds, and more; None if that cannot be told."""
    if spec.origin is None:
        return set()
    try:
        nodes = list(ast.walk(ast.parse(pathlib.Path(spec.origin).read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = set(_names(nodes)) | {f"__{name}__" for name in ("name", "file", "doc", "path")}
    return None if names & {"*", "__getattr__", "globals", "vars", "setattr", "exec"} else names


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _place(spec: importlib.machinery.ModuleSpec) -> str:
    return spec.origin or ", ".join(spec.submodule_search_locations or [])


def _module_hint(package: str, missing: str, found: importlib.machinery.ModuleSpec) -> str:
    """Returns what to write in place of a missing module, or to do about it."""
    near: Iterable[str] = _submodules(found)
    if package == OURS:  # short names of another framework's modules resemble some of ours
        near = [name for name in near if is_typing_error(missing, name)]
    return _hint(missing, near) or _advice(package)


def _advice(package: str) -> str:
    """Returns what to do about a module that this project has never had."""
    if package.partition(".")[0] != OURS:
        return ""
    return (
        " A params file of another framework of this name? Remove the import and what uses it: "
        "docs/environments.md lists what a params file may define, docs/settings.md what it may "
        "set; success rates need no metric, but get_info()['success'] of the environment."
    )


def _hint(name: str, allowed: Iterable[str]) -> str:
    nearest = nearest_name(name, (each for each in allowed if not each.startswith("_")))
    return f" Did you mean {nearest}?" if nearest else ""
