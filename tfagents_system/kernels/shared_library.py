"""Names the library file of the compiled ops. Imports no TensorFlow.

The library's name shows what it was built from: `dense_relu-<fit>-<compiler>.so`. A program loads a
library only if `fit` matches this source and this system, so it never loads an outdated one. The
second part shows the build whether the compiler has changed.
"""

import hashlib
import os
import pathlib
import platform
import stat

from tfagents_system.core.installed import versions
from tfagents_system.kernels.cpu import cpu_flags, instruction_set

SOURCE = pathlib.Path(__file__).with_name("dense_relu.cc")
COMPILER_FLAGS = ("-O3", "-shared", "-fPIC", "-mprfchw")
BUILD_COMMAND = "python -m tfagents_system.kernels.build"


class LibraryError(Exception):
    """The compiled ops cannot be used; the message tells why and what to do."""


def digest(*parts: str | bytes) -> str:
    """Returns 12 hexadecimal digits that differ if any of `parts` differs."""
    checksum = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        checksum.update(len(data).to_bytes(8, "big") + data)
    return checksum.hexdigest()[:12]


def compiler_flags() -> list[str]:
    """Returns the flags of a build for this CPU."""
    chosen = instruction_set(cpu_flags())
    return [*COMPILER_FLAGS, *(chosen.compiler_flags if chosen else ())]


def fit() -> str:
    """Returns the digest of what a library must match: source, flags, TensorFlow, C library."""
    headers = sorted(SOURCE.parent.glob("*.h"))
    return digest(
        *(path.read_bytes() for path in (SOURCE, *headers)),
        *compiler_flags(),
        *versions("tensorflow"),
        *platform.libc_ver(),
    )


def libraries(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns all libraries in `folder`, including outdated ones."""
    return sorted(folder.glob(f"{SOURCE.stem}-*.so"))


def choose_folder(package: pathlib.Path = SOURCE.parent) -> pathlib.Path:
    """Returns the library's folder: next to its source, or in the user's cache.

    The cache is for users who cannot write to the package's folder.
    """
    if os.access(package, os.W_OK) or _fitting(package):
        return package
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache, "tfagents_system")


def _fitting(folder: pathlib.Path) -> list[pathlib.Path]:
    wanted = fit()
    return [path for path in libraries(folder) if path.stem.split("-")[1] == wanted]


FOLDER = choose_folder()


def find_library(folder: pathlib.Path = FOLDER) -> pathlib.Path:
    """Returns the library built from this source for this system.

    Raises:
      LibraryError: If there is none, or if other users could have changed it.
    """
    found = _fitting(folder)
    if not found:
        what = "are outdated" if libraries(folder) else "have not been built"
        raise LibraryError(f"the compiled ops {what}; build them with: {BUILD_COMMAND}")
    library = found[-1]
    if library.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LibraryError(
            f"{library} may be changed by other users; delete it and build it with: {BUILD_COMMAND}"
        )
    return library
