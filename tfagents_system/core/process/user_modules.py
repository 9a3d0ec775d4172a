"""Finds and names user code, alike in every program and in the processes that it starts.

A params file is the module of its own name, with the `__file__` of the original, whose folder is
first on the path of modules, although what runs is the copy that its run has made. So are the
modules that it imports from there: a program that is started again takes no edit of them half.
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
UNNAMED = "train_params"  # where a params file has the name of another module
_own_names: set[str] = set()  # of params files that this process has loaded


@dataclasses.dataclass(frozen=True)
class UserModule:
    """A module of the user's, and what is executed for it."""

    name: str
    file: str  # the original, absolute: its `__file__`
    source: str  # file that is executed: the original, or the copy that a run has made of it
    is_package: bool = False

    @property
    def shown_name(self) -> str:
        """The file as its importers see it: arm/motor.py."""
        return self.name.replace(".", "/") + ("/__init__.py" if self.is_package else ".py")


class UserFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of which a run has copies."""

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
        """Compiles anew: Python's cache beside the file is of what it is by now."""
        data = self.get_data(self.path)
        show_source(self.path, data)
        return self.source_to_code(data, self.path)


def spec_of(module: UserModule) -> importlib.machinery.ModuleSpec:
    """Returns what Python needs to import a module."""
    folder = [os.path.dirname(module.file)] if module.is_package else None
    spec = importlib.util.spec_from_file_location(
        module.name, module.file, loader=_SourceLoader(module), submodule_search_locations=folder
    )
    assert spec is not None  # a loader was given
    return spec


def show_source(file: str, data: bytes) -> None:
    """Lets tracebacks show the lines that are executed, whatever is in the file by now."""
    lines = data.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[file] = (len(data), None, lines, file)


def params_module(source: pathlib.Path, original: pathlib.Path) -> UserModule:
    """Returns the module that a params file is; where the original's folder is gone, the copy."""
    file = original if original.parent.is_dir() else source.absolute()
    return UserModule(_name_of(file), str(file), str(source.absolute()))


def take_over(
    params: UserModule, neighbours: Sequence[UserModule] = (), running: pathlib.Path | None = None
) -> None:
    """Lets this process, and those that user code will start, find the modules of a run.

    Those of an earlier call are found no more.

    Args:
      params: The params file.
      neighbours: Modules that it imports and of which the run has copies.
      running: Where the copies are; None if there are none.
    """
    _own_names.add(params.name)
    find([params, *neighbours])
    folder = os.path.dirname(params.file)
    if process_start.is_package_folder(folder):
        sys.path.append(folder)  # behind whatever its modules' names stand for elsewhere
    else:
        sys.path.insert(0, folder)
    if not process_start.is_own_process():
        return
    sys.argv = [params.file]  # flags of this program are none of the user's
    told = {"params": dataclasses.asdict(params), "running": running and str(running.absolute())}
    os.environ[MODULES_VARIABLE] = json.dumps(told)
    # multiprocessing imports the main module in a new process: not this program with TensorFlow.
    sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec(CHILD, None)


def find(modules: Sequence[UserModule]) -> None:
    """Lets this process find the modules, and none of an earlier call."""
    finders = [finder for finder in sys.meta_path if not isinstance(finder, UserFinder)]
    sys.meta_path[:] = [UserFinder(modules), *finders]


def told_modules() -> tuple[UserModule, pathlib.Path | None] | None:
    """Returns what the process that started this one has taken over: params, and `running`."""
    told = json.loads(os.environ.get(MODULES_VARIABLE, "null"))
    if told is None:
        return None
    running = told["running"]
    return UserModule(**told["params"]), pathlib.Path(running) if running else None


def loaded_modules() -> list[UserModule]:
    """Returns what user code has imported that is neither installed nor of this package.

    Without the params file itself.
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
    """Returns the file's own name, if no other module that may be imported has it."""
    name = file.stem
    if name in _own_names:
        return name
    if "." in name or name == process_start.PACKAGE or name in sys.stdlib_module_names:
        return UNNAMED
    places = [entry for entry in sys.path if pathlib.Path(entry).resolve() != file.parent.resolve()]
    spec = importlib.machinery.PathFinder.find_spec(name, places)
    is_taken = name in sys.modules or (spec is not None and spec.origin is not None)
    return UNNAMED if is_taken else name
