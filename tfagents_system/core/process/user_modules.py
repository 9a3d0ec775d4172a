"""Finds and names user modules in the same way in every program and in its child processes.

A run executes copies of the params file and of the user's modules that it imports, so that a
restarted program sees no half of an edit. Each copy has its original's module name and `__file__`,
and the original's folder is first on the module search path.
"""

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import os
import pathlib
import sys
import sysconfig
import types
from collections.abc import Sequence

from tfagents_system.core.process import process_start

MODULES_VARIABLE = "TFAGENTS_SYSTEM_MODULES"  # for processes that user code starts
CHILD = "tfagents_system.core.programs.user_child"
UNNAMED = "train_params"  # if the params file has the name of another module
_own_names: set[str] = set()  # names of params files that this process has loaded


@dataclasses.dataclass(frozen=True)
class UserModule:
    """A user's module, and the file that is executed for it."""

    name: str
    file: str  # the original, absolute: its `__file__`
    source: str  # file that is executed: the original, or the copy that a run has made of it
    is_package: bool = False

    @property
    def shown_name(self) -> str:
        """The file's path as its importers see it: arm/motor.py."""
        return self.name.replace(".", "/") + ("/__init__.py" if self.is_package else ".py")


class UserFinder(importlib.abc.MetaPathFinder):
    """Finds the modules that a run has copied."""

    def __init__(self, modules: Sequence[UserModule]):
        """Finds `modules`, and leaves all others to Python."""
        self._modules = {module.name: module for module in modules}

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of one of the modules; None for any other."""
        module = self._modules.get(name)
        return None if module is None else spec_of(module)


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Executes the copy of a file as if it were the file."""

    def __init__(self, module: UserModule):
        super().__init__(module.name, module.file)
        self.source = module.source

    def get_data(self, path: str) -> bytes:
        """Reads the copy in place of the module's file."""
        return super().get_data(self.source if path == self.path else path)

    def get_code(self, fullname: str) -> types.CodeType:
        """Compiles the copy; Python's cache next to the original may be of an edited file."""
        data = self.get_data(self.path)
        show_source(self.path, data)
        return self.source_to_code(data, self.path)


def spec_of(module: UserModule) -> importlib.machinery.ModuleSpec:
    """Returns the spec by which Python imports a module."""
    folder = [os.path.dirname(module.file)] if module.is_package else None
    spec = importlib.util.spec_from_file_location(
        module.name, module.file, loader=_SourceLoader(module), submodule_search_locations=folder
    )
    assert spec is not None  # a loader was given
    return spec


def show_source(file: str, data: bytes) -> None:
    """Makes tracebacks show the executed lines, even if the file has been edited since."""
    lines = data.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[file] = (len(data), None, lines, file)


def params_module(source: pathlib.Path, original: pathlib.Path) -> UserModule:
    """Returns the params file as a module; the copy if the original's folder is gone."""
    file = original if original.parent.is_dir() else source.absolute()
    return UserModule(_name_of(file), str(file), str(source.absolute()))


def take_over(
    params: UserModule, neighbours: Sequence[UserModule] = (), running: pathlib.Path | None = None
) -> None:
    """Makes this process, and those that user code will start, find the modules of a run.

    Replaces the modules of an earlier call.

    Args:
      params: The params file.
      neighbours: Modules that it imports and that the run has copied.
      running: Folder of the copies; None if there are none.
    """
    _own_names.add(params.name)
    find([params, *neighbours])
    folder = os.path.dirname(params.file)
    if process_start.is_package_folder(folder):
        sys.path.append(folder)  # last, so that other modules of the same names are found first
    else:
        sys.path.insert(0, folder)
    if not process_start.is_own_process():
        return
    sys.argv = [params.file]  # user code must not see this program's flags
    told = {"params": dataclasses.asdict(params), "running": running and str(running.absolute())}
    os.environ[MODULES_VARIABLE] = json.dumps(told)
    # multiprocessing imports the main module in a new process: it must not be this program, which
    # would import TensorFlow.
    sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec(CHILD, None)


def find(modules: Sequence[UserModule]) -> None:
    """Makes this process find these modules in place of those of an earlier call."""
    finders = [finder for finder in sys.meta_path if not isinstance(finder, UserFinder)]
    sys.meta_path[:] = [UserFinder(modules), *finders]


def told_modules() -> tuple[UserModule, pathlib.Path | None] | None:
    """Returns the params file and `running` of the process that started this one."""
    told = json.loads(os.environ.get(MODULES_VARIABLE, "null"))
    if told is None:
        return None
    running = told["running"]
    return UserModule(**told["params"]), pathlib.Path(running) if running else None


def loaded_modules() -> list[UserModule]:
    """Returns the user's imported modules: neither installed, nor of this package.

    The params file itself is not among them.
    """
    stdlib = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
    no_modules = {"__main__", "__mp_main__", *_own_names}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name in no_modules:
            continue
        is_installed = {"site-packages", "dist-packages"} & set(pathlib.Path(file).parts)
        is_own = name.partition(".")[0] == process_start.PACKAGE
        if not (is_installed or is_own or file.startswith(stdlib)):
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            source = loader.source if isinstance(loader, _SourceLoader) else file
            found.append(UserModule(name, file, source, hasattr(module, "__path__")))
    return found


def _name_of(file: pathlib.Path) -> str:
    """Returns the file's own name, unless another importable module has it."""
    name = file.stem
    if name in _own_names:
        return name
    if "." in name or name == process_start.PACKAGE or name in sys.stdlib_module_names:
        return UNNAMED
    places = [entry for entry in sys.path if pathlib.Path(entry).resolve() != file.parent.resolve()]
    spec = importlib.machinery.PathFinder.find_spec(name, places)
    is_taken = name in sys.modules or (spec is not None and spec.origin is not None)
    return UNNAMED if is_taken else name
