"""Copies config, params and their modules, so that all programs of a start use the same.

Otherwise an edit during a run would reach only restarted programs, and the programs would disagree.
"""

import contextlib
import dataclasses
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
from tfagents_system.core.waiting import Throttled

MODULES = "modules"  # folder of the copies, by the modules' names
TABLE = "modules.json"
FINISHED_PERIOD_SECS = 2.0  # between checks by `finish_of`


def begin_run(
    paths: ExperimentPaths, modules: Sequence[UserModule] = (), gin_bindings: Sequence[str] = ()
) -> None:
    """Replaces `running/` by the copies of this start; needs the experiment's lock.

    Args:
      paths: Paths of the experiment, whose config and params are copied.
      modules: The user's modules that the params file imports, which are copied, too.
      gin_bindings: Bindings of this start; the learner writes them to `provenance.json` once it has
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
        if paths.finished.exists():
            (fresh / paths.extends.name).touch()
        shutil.rmtree(paths.running, ignore_errors=True)
        rename_durably(fresh, paths.running)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def is_finished(paths: ExperimentPaths) -> bool:
    """Returns whether training has reached the end that the newest start has set.

    A start that goes beyond an earlier end leaves the record of that end until it is accepted.
    """
    return paths.finished.exists() and not paths.extends.exists()


def finish_of(paths: ExperimentPaths) -> Throttled[bool]:
    """Returns a reader of whether training has reached its end; it looks every 2 s at most."""
    return Throttled(lambda: is_finished(paths), FINISHED_PERIOD_SECS)


def copied_modules(paths: ExperimentPaths) -> list[UserModule]:
    """Returns the user's modules that this start has copied."""
    return modules_in(paths.running)


def modules_in(running: pathlib.Path) -> list[UserModule]:
    """Returns the modules with copies in a folder `running/`."""
    table = read_json(running / TABLE)
    if table is None:  # a start of an earlier version, without copies
        return []
    copies = running.absolute() / MODULES
    return [UserModule(**each, source=str(copies / f"{each['name']}.py")) for each in table]


def keep_modules(running: pathlib.Path, modules: Sequence[UserModule]) -> None:
    """Adds copies of modules to `running/` that were unknown before their import."""
    known = {module.name for module in modules_in(running)}
    new = [module for module in modules if module.name not in known]
    if not new:
        return
    try:
        _copy_modules(new, running)
    except OSError:  # on a full disk, writing run_spec.json will fail and report it
        with contextlib.suppress(OSError):  # it has earlier copies
            (running / MODULES).rmdir()


def edited_files(paths: ExperimentPaths) -> list[str]:
    """Returns the names of the user's files that differ from the run's copies."""
    pairs = [(paths.config.name, paths.config, paths.running_config),
             (paths.params.name, paths.params, paths.running_params)]  # fmt: skip
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # damaged: none
        pairs += [(module.shown_name, pathlib.Path(module.file), pathlib.Path(module.source))
                  for module in copied_modules(paths)]  # fmt: skip
    return [name for name, original, copy in pairs if _differs(original, copy)]


def unproven_bindings(paths: ExperimentPaths) -> list[str]:
    """Returns the gin bindings that are new in this start, until the learner trains with them."""
    try:
        running, kept = read_json(paths.running_bindings), read_json(paths.provenance)
        return [binding for binding in running if binding not in kept["gin_bindings"]]
    except (OSError, ValueError, TypeError, KeyError):  # damaged: none
        return []


def _copy_modules(modules: Sequence[UserModule], running: pathlib.Path) -> None:
    """Adds Python files to the copies, then replaces their table."""
    folder, table = running / MODULES, running / TABLE
    folder.mkdir(exist_ok=True)
    entries = read_json(table) or []
    for module in modules:
        if not module.file.endswith(".py"):
            continue
        copy = folder / f"{module.name}.py"
        try:
            shutil.copyfile(module.source, copy)
        except OSError:  # vanished, or a full disk; Python reports it if needed
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
    except OSError:  # removed, or not started yet: nothing to report
        return False
