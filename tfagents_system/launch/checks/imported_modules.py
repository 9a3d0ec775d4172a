"""Finds the user's modules that a params file imports, directly or through others.

Nothing is executed. Modules that are installed, or that may be different when the programs run, are
left to Python's import.
"""

import ast
import importlib.machinery
import pathlib
from collections.abc import Iterator

from tfagents_system.core.process.user_modules import UserModule
from tfagents_system.launch.checks.import_check import ModuleFinder

MOST_MODULES = 1000  # in a larger package, edits are not noticed


def imported_modules(params: pathlib.Path, import_dir: pathlib.Path) -> list[UserModule]:
    """Returns the modules on disk that `params` imports, also inside functions.

    Args:
      params: The params file.
      import_dir: Folder of modules next to it.
    """
    finder = ModuleFinder([import_dir.absolute()])
    found: dict[str, UserModule] = {}
    waiting = [(params, "")]
    while waiting and len(found) < MOST_MODULES:
        path, package = waiting.pop()
        for name in _imported_names(path, package):
            for module in _modules_of(name, finder):
                if module.name not in found:
                    found[module.name] = module
                    inside = module.name if module.is_package else module.name.rpartition(".")[0]
                    waiting.append((pathlib.Path(module.file), inside))
    return [found[name] for name in sorted(found)]


def _imported_names(path: pathlib.Path, package: str) -> Iterator[str]:
    """Yields the imports of the file `path`, in `package`: modules and possible modules."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)


def _modules_of(name: str, finder: ModuleFinder) -> Iterator[UserModule]:
    """Yields the user's modules that `import name` executes, including parent packages."""
    top, *inner = name.split(".")
    spec = finder.find(top) if top else None
    full = top
    while spec is not None and finder.is_users(spec):
        if (module := _user_module(full, spec)) is not None:
            yield module
        if not inner:
            return
        spec = finder.find_in(spec, full, inner[0])
        full = f"{full}.{inner.pop(0)}"


def _user_module(name: str, spec: importlib.machinery.ModuleSpec) -> UserModule | None:
    """Returns the module if it is a Python file; None for a folder or a compiled module."""
    if not isinstance(spec.loader, importlib.machinery.SourceFileLoader) or spec.origin is None:
        return None
    is_package = spec.submodule_search_locations is not None
    file = str(pathlib.Path(spec.origin).absolute())
    return UserModule(name, file, file, is_package)
