"""Builds the learner's compiled ops where they are missing, and deletes old ones.

Example: python -m tfagents_system.kernels.build
Prints one line. Exit codes: 0 the library exists, or this host cannot have it (no compiler, or a
CPU without the instructions), and training runs in float32; 1 the build failed.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection

from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.kernels.cpu import cpu_flags, missing_flags
from tfagents_system.kernels.shared_library import (
    FOLDER,
    SOURCE,
    LibraryError,
    compiler_flags,
    digest,
    find_library,
    fit,
    libraries,
)

COMPILER = "c++"
TIMEOUT_SECS = 120.0  # it takes five seconds
OLD_AFTER_SECS = 90 * 86400.0


def build(folder: pathlib.Path = FOLDER, compiler: str = COMPILER) -> tuple[pathlib.Path, bool]:
    """Builds the library in `folder` if it is missing; returns it, and whether it was built.

    A build blocks for seconds. Removes libraries from `folder` that this one replaces, and those
    of other systems or sources that are older than 90 days: other hosts may share the folder.

    Raises:
      LibraryError: If the compiler fails or takes too long, or `folder` cannot be written to.
    """
    version = _output_of([compiler, "--version"])
    library = folder / f"{SOURCE.stem}-{fit()}-{digest(version)}.so"
    is_new = not library.exists()
    try:
        if folder == FOLDER:  # the folder may be the user's cache
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_new:
            _compile(compiler, library)
        for other in set(libraries(folder)) - {library}:
            with contextlib.suppress(FileNotFoundError):  # another host has deleted it
                if other.stem.split("-")[1] == fit() or _is_old(other):
                    other.unlink()
    except OSError as error:
        raise LibraryError(f"{error.filename or folder}: {error.strerror}") from error
    return library, is_new


def build_if_missing() -> None:
    """Builds the library if setup.sh has not built it, and reports it on stderr.

    A build blocks for seconds. Does nothing without a compiler, or if the CPU cannot use it.
    """
    if missing_flags(cpu_flags()) or shutil.which(COMPILER) is None:
        return
    try:
        find_library(FOLDER)
    except LibraryError:
        command = [sys.executable, "-m", "tfagents_system.kernels.build"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout, end="", file=sys.stderr, flush=True)


def _is_old(library: pathlib.Path) -> bool:
    return time.time() - library.stat().st_mtime > OLD_AFTER_SECS


def _compile(compiler: str, library: pathlib.Path) -> None:
    import tensorflow as tf  # imported here because it takes seconds

    with tempfile.TemporaryDirectory(prefix=".compiling_", dir=library.parent) as temporary:
        unfinished = pathlib.Path(temporary) / library.name
        _output_of([
            compiler, *compiler_flags(), *tf.sysconfig.get_compile_flags(), str(SOURCE),
            *tf.sysconfig.get_link_flags(), "-o", str(unfinished),
        ])  # fmt: skip
        unfinished.chmod(0o755)  # no other user may change it, whatever the umask
        os.replace(unfinished, library)


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LibraryError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        raise LibraryError(
            f"{command[0]} failed with {done.returncode}: {done.stderr[-1000:].strip()}"
        )
    return done.stdout


def main(
    *,
    folder: pathlib.Path = FOLDER,
    compiler: str = COMPILER,
    flags: Collection[str] | None = None,
) -> int:
    """Builds the ops for a CPU with `flags` (None: this one), prints, returns the exit code."""
    if missing := missing_flags(cpu_flags() if flags is None else flags):
        print(f"Compiled ops: not for this CPU, which lacks {', '.join(missing)}.")
        return 0
    if shutil.which(compiler) is None:
        print(f"Compiled ops: not built, because there is no C++ compiler ({compiler}).")
        return 0
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's import prints many lines
    try:
        library, is_new = build(folder, compiler)
    except LibraryError as error:
        print(f"Compiled ops: the build failed: {error}")
        return 1
    print(f"Compiled ops: {library} {'was built' if is_new else 'is up to date'}.")
    return 0


if __name__ == "__main__":
    run_tool(main, sys.argv)
