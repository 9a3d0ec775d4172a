"""Prepares each process before all else, so that user code cannot tell how it was started.

Python puts the script's folder, or with `-m` the current one, first on the module search path. This
package's modules (run, workers, environments) would then hide a user's modules of the same names,
and a user's modules (random, queue) would hide those that this package imports.
"""

import gc
import io
import os
import sys
from collections.abc import Mapping
from typing import Any

PACKAGE = "tfagents_system"
FOLDER = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))  # of the package
# Programs start in the project's folder, which has no user modules, and then change to this one.
WORKING_DIR_VARIABLE = "SERVICE_WORKING_DIR"
# Where run_script.sh was called; the script itself works in the project's folder.
COMMAND_DIR_VARIABLE = "COMMAND_WORKING_DIR"
ENTRY = "sac"  # the script that pip installs


_is_own = False


def prepare() -> None:
    """Cleans the module search path, changes to the user's folder, and prepares messages.

    The package calls it before it imports anything else. In our programs and tools, no garbage is
    collected until `end_imports`.
    """
    global _is_own
    _is_own = is_own = _is_started_as_own()
    if is_own and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[:1]
    sys.path[:] = [entry for entry in sys.path if not is_package_folder(entry)]
    if is_own and not _is_found():  # it is not installed
        sys.path.append(os.path.dirname(FOLDER))
    if is_own:
        # TensorFlow's import makes a million objects, and each collection would visit them all.
        gc.disable()
        tolerate_warnings()
        _print_any_text()
    if is_own and (folder := os.environ.pop(WORKING_DIR_VARIABLE, None)):
        try:
            os.chdir(folder)
        except OSError as error:
            print(f"Note: {error}; this program works in {os.getcwd()} instead.", file=sys.stderr)


def end_imports() -> None:
    """Starts garbage collection in our programs and tools; what is imported by now is left out."""
    if _is_own:
        gc.freeze()
        gc.enable()


def tolerate_warnings() -> None:
    """Shows the warnings that PYTHONWARNINGS or -W would turn into errors.

    TF-Agents and other libraries warn when they are imported, and the import would then fail.
    """
    import warnings  # now that the module search path is clean

    for action, _, category, _, _ in list(warnings.filters):
        if action == "error":
            warnings.simplefilter("default", category)


def _print_any_text() -> None:
    """Escapes characters that the terminal or log cannot show, as Python does on sys.stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def launch_arguments(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the `subprocess` arguments with which to start `python -m` of this package.

    It starts in the project's folder, because the current one may have another package of this
    name, and then changes back to the current one.

    Args:
      environ: Environment of the new process.
    """
    project = os.path.dirname(FOLDER)
    return {"cwd": project, "env": {**environ, WORKING_DIR_VARIABLE: os.getcwd()}}


def launch_prefix() -> list[str]:
    """Returns the same as text, to put before `python -m` of this package in a shell command."""
    return ["env", "-C", os.path.dirname(FOLDER), f"{WORKING_DIR_VARIABLE}={os.getcwd()}"]


def command_folder() -> str:
    """Returns the folder from which the user gave the command: user code runs there.

    Removes the variable that may name it, so that user code and its processes do not inherit it.
    """
    return os.environ.pop(COMMAND_DIR_VARIABLE, "") or os.getcwd()


def is_own_process() -> bool:
    """Returns whether this process is one of our programs or tools, not a user's script."""
    return _is_own


def is_package_folder(entry: str) -> bool:
    """Returns whether an entry of the module search path is this package's own folder."""
    return bool(entry) and os.path.realpath(entry) == FOLDER


def _is_started_as_own() -> bool:
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None:
        path = os.path.realpath(file)
        return path.startswith(FOLDER + os.sep) or os.path.basename(path) == ENTRY
    if sys.argv[:1] != ["-m"]:  # as it is while Python looks for the module to run
        return False
    command = " ".join(sys.orig_argv)
    return f" -m {PACKAGE}" in command or f" -m{PACKAGE}" in command


def _is_found() -> bool:
    """Returns whether other processes, with the same search path, will find this package."""
    for finder in sys.meta_path:
        try:
            if finder.find_spec(PACKAGE, None) is not None:
                return True
        except Exception:  # raised by another package's finder
            continue
    return False
