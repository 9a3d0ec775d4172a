"""Explains in one sentence what an import statement could not find."""

import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import nearest_name
from tfagents_system.core.process.process_start import PACKAGE
from tfagents_system.core.settings.attribute_names import is_typing_error


def refusal_of(error: ImportError, file: str) -> ConfigError | None:
    """Returns the message on a failed import statement in `file`.

    None if another file has raised `error`, because then its traceback tells more.
    """
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    if innermost.filename != file:
        return None
    return ConfigError(f"{file}:{innermost.lineno}: {error}.{_hint(error)}")


def _hint(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError):
        package, _, missing = (error.name or "").rpartition(".")
        names = _submodules(package)
        if package == PACKAGE:  # short names of other frameworks' modules resemble ours
            names = {name for name in names if is_typing_error(missing, name)}
    else:
        package = error.name or ""
        missing = "".join(re.findall("cannot import name '(.*?)'", str(error)))
        names = _submodules(package) | set(dir(sys.modules.get(package)))
    if nearest := nearest_name(missing, _public(names)):
        return f" Did you mean {nearest}?"
    if package.partition(".")[0] != PACKAGE:
        return ""
    return (
        " A params file of another framework of this name? Remove the import and what uses it: "
        "docs/environments.md lists what a params file may define, docs/settings.md what it may "
        "set; success rates need no metric, but get_info()['success'] of the environment."
    )


def _submodules(package: str) -> set[str]:
    places = getattr(sys.modules.get(package), "__path__", ())
    return {module.name for module in pkgutil.iter_modules(places)}


def _public(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]
