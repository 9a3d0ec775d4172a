"""Loads the ops of `dense_relu_ops.cc`; the C++ compiler makes them when they are first needed."""

import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

SOURCE = pathlib.Path(__file__).with_suffix(".cc")
COMPILER = "c++"
FLAGS = (
    "-O3",
    "-shared",
    "-fPIC",
    "-mavx512f",
    "-mavx512bw",
    "-mavx512vnni",
    "-mprfchw",
)
COMPILER_TIMEOUT_SECS = 120.0  # it takes two
CPUINFO = pathlib.Path("/proc/cpuinfo")


def cpu_flags(cpuinfo: pathlib.Path = CPUINFO) -> frozenset[str]:
    """Returns what the first CPU can do, in the kernel's names; nothing if it does not say so."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except FileNotFoundError:  # as on macOS
        return frozenset()
    flags = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    return frozenset(next(flags, "").split())


def are_for(flags: frozenset[str]) -> bool:
    """Whether the CPU has the ops' instructions and not AMX, with which TensorFlow is faster."""
    return flags >= {"avx512f", "avx512bw", "avx512_vnni"} and "amx_bf16" not in flags


@functools.cache
def load() -> Any:
    """Returns the module of the ops, or None if they are not for this CPU or cannot be compiled.

    Blocks for seconds where they have not been compiled before, and prints why they cannot be.
    """
    if not are_for(cpu_flags()):
        return None
    try:
        return tf.load_op_library(str(compiled(SOURCE.parent)))
    except (OSError, subprocess.SubprocessError, tf.errors.NotFoundError) as error:
        print(f"Matrix products in bfloat16 are TensorFlow's own, which are slower: {error}")
        return None


def compiled(folder: pathlib.Path, compiler: Sequence[str] = (COMPILER, *FLAGS)) -> pathlib.Path:
    """Returns the library of the ops in `folder`; makes it if it is missing or of other code.

    Raises:
      OSError: If there is no compiler, or `folder` cannot be written to.
      subprocess.SubprocessError: If the compiler fails or takes too long.
    """
    command = [
        *compiler, *tf.sysconfig.get_compile_flags(), str(SOURCE), *tf.sysconfig.get_link_flags()
    ]  # fmt: skip
    made_of = repr((command, tf.__version__)).encode() + SOURCE.read_bytes()
    library = folder / f"{SOURCE.stem}_{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(prefix=".compiling_", dir=folder) as temporary:
            made = pathlib.Path(temporary) / library.name
            done = subprocess.run(
                [*command, "-o", str(made)],
                capture_output=True, text=True, errors="replace", timeout=COMPILER_TIMEOUT_SECS,
            )  # fmt: skip
            if done.returncode:
                raise subprocess.SubprocessError(
                    f"{command[0]} failed with {done.returncode}: {done.stderr[-1000:]}"
                )
            os.replace(made, library)
    return library
