"""Copies what a start runs with, so that all of its programs use the same.

An edit of one of them while a run goes on would otherwise reach only the programs that are started
again, and a run would disagree with itself.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Sequence

from tfagents_system.core.process.user_modules import UserModule
from tfagents_system.core.state.files import (
    read_json,
    rename_durably,
    temporary_name,
    write_json_atomically,
)
from tfagents_system.core.state.paths import ExperimentPaths

MODULES = "modules"  # folder of the copies, by the modules' names
TABLE = "modules.json"


def begin_run(
    paths: ExperimentPaths, modules: Sequence[UserModule] = (), gin_bindings: Sequence[str] = ()
) -> None:
    """Replaces `running/` by what this start runs with; needs the experiment's lock.

    Args:
      paths: Of the experiment, whose config and params are copied.
      modules: The user's own that the params file imports; they are copied, too.
      gin_bindings: In force in this start; the learner puts them into `provenance.json` once it has
        trained with them.
    """
    fresh = temporary_name(paths.running)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir()
        shutil.copyfile(paths.config, fresh / paths.config.name)
        shutil.copyfile(paths.params, fresh / paths.params.name)
        _copy_modules(modules, fresh)
        write_json_atomically(fresh / paths.running_bindings.name, list(gin_bindings))
        shutil.rmtree(paths.running, ignore_errors=True)
        rename_durably(fresh, paths.running)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def copied_modules(paths: ExperimentPaths) -> list[UserModule]:
    """Returns the user's modules of which this start has copies."""
    return modules_in(paths.running)


def modules_in(running: pathlib.Path) -> list[UserModule]:
    """Returns the modules of which there are copies in a folder `running/`."""
    try:
        table = json.loads((running / TABLE).read_text())
    except FileNotFoundError:  # a start of before there were any
        return []
    copies = running.absolute() / MODULES
    return [UserModule(**each, source=str(copies / f"{each['name']}.py")) for each in table]


def keep_modules(running: pathlib.Path, modules: Sequence[UserModule]) -> None:
    """Adds to `running/` copies of modules that nobody could know before they were imported."""
    known = {module.name for module in modules_in(running)}
    new = [module for module in modules if module.name not in known]
    if not new:
        return
    try:
        _copy_modules(new, running)
    except OSError:  # a full disk: run_spec.json, which follows, says so
        with contextlib.suppress(OSError):  # it holds copies of before
            (running / MODULES).rmdir()


def edited_files(paths: ExperimentPaths) -> list[str]:
    """Returns the names of those files of the user that differ from what the run uses of them."""
    pairs = [(paths.config.name, paths.config, paths.running_config),
             (paths.params.name, paths.params, paths.running_params)]  # fmt: skip
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # damaged: nothing to say
        pairs += [(module.shown_name, pathlib.Path(module.file), pathlib.Path(module.source))
                  for module in copied_modules(paths)]  # fmt: skip
    return [name for name, original, copy in pairs if _differs(original, copy)]


def unproven_bindings(paths: ExperimentPaths) -> list[str]:
    """Returns the gin bindings that are new in this start, until the learner trains with them."""
    try:
        running, kept = read_json(paths.running_bindings), read_json(paths.provenance)
        return [binding for binding in running if binding not in kept["gin_bindings"]]
    except (OSError, ValueError, TypeError, KeyError):  # damaged: nothing to say
        return []


def _copy_modules(modules: Sequence[UserModule], running: pathlib.Path) -> None:
    """Adds Python files to the copies; the table of them is replaced at last."""
    folder, table = running / MODULES, running / TABLE
    folder.mkdir(exist_ok=True)
    entries = json.loads(table.read_text()) if table.exists() else []
    for module in modules:
        if not module.file.endswith(".py"):
            continue
        copy = folder / f"{module.name}.py"
        try:
            shutil.copyfile(module.source, copy)
        except OSError:  # it has just gone, or the disk is full: whether it is missed, Python says
            copy.unlink(missing_ok=True)
            continue
        entry = dataclasses.asdict(module)
        del entry["source"]
        entries.append(entry)
    write_json_atomically(table, entries)


def _differs(original: os.PathLike[str], copy: os.PathLike[str]) -> bool:
    try:
        with open(original, "rb") as first, open(copy, "rb") as second:
            return first.read() != second.read()
    except OSError:  # removed, or a folder of before its first start: nothing to say
        return False
