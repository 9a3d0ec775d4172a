"""Keeps a program running when the disk is full or failing: it reports and tries again."""

import contextlib
import errno
import io
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tfagents_system.core.state.patience import is_transient

FULL = (errno.ENOSPC, errno.EDQUOT)
WARNING_PERIOD_SECS = 60.0
BLOCK_BYTES = 4096  # a file takes at least one block
SPARE_BYTES = 1_000_000  # space that a checkpoint must leave free


def is_disk_full(error: BaseException) -> bool:
    """Returns whether `error` says that the disk, or the user's share of it, is full.

    TensorFlow and Reverb have exceptions of their own, which quote the system's message.
    """
    text = str(error)
    return getattr(error, "errno", None) in FULL or any(os.strerror(n) in text for n in FULL)


def shortage(what: str, needed_bytes: int, free_bytes: int) -> str:
    """Returns the warning that `what` does not fit; `needed_bytes` is 0 if unknown."""
    needs = f"needs {format_bytes(needed_bytes)}" if needed_bytes else "does not fit"
    return f"DISK FULL: {what} {needs}, {format_bytes(free_bytes)} free"


def format_bytes(count: float) -> str:
    """Returns a number of bytes in decimal units: `512 B`, `3.1 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def free_bytes(folder: pathlib.Path) -> int:
    """Returns the free bytes for unprivileged users on the disk of `folder`."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_space_is_left(folder: pathlib.Path) -> None:
    """Raises OSError if the disk of `folder` is nearly full after a write.

    Reverb calls a checkpoint complete even if the last block of a file did not fit.
    """
    if free_bytes(folder) < SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def bytes_of(folder: pathlib.Path) -> int:
    """Returns the size of all files in `folder`; 0 if there is none."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # removed meanwhile, or hidden from this user
            continue
    return total


class SpaceGuard:
    """Lets a program continue when the disk refuses something that it writes.

        guard = SpaceGuard("policy", folder)
        with guard:
            export(folder)  # if the disk is full or fails, this ends the block and nothing else
        guard.is_full       # whether the last block ended like this
        guard.problem       # and why

    Prints the problem, at most once a minute, and when writing succeeds again.
    """

    def __init__(
        self,
        what: str,
        folder: pathlib.Path,
        needed_bytes: Callable[[], int] = lambda: BLOCK_BYTES,
        clock: Callable[[], float] = time.monotonic,
        tolerated: type[Exception] | tuple[type[Exception], ...] = (),
    ):
        """Writes nothing.

        Args:
          what: Names what is written, for the warning.
          folder: Where; it need not exist yet.
          needed_bytes: Estimates the space it takes; 0 if unknown.
          clock: In seconds.
          tolerated: Exceptions that also only end the block.
        """
        self._what, self._folder = what, folder
        self._needed_bytes = needed_bytes
        self._clock = clock
        self._tolerated = tolerated
        self.lacks_space = False  # whether the disk was full in the last block
        self._num_failures = 0  # since the last successful write
        self.problem: str | None = None  # of the last block
        self._warned_at = float("-inf")

    @property
    def is_full(self) -> bool:
        """Whether the disk was full, or failed, in the last block."""
        return self._num_failures > 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            if self._num_failures:
                reason = "There is space" if self.lacks_space else "The disk answers"
                print(f"{reason} again: {self._what} is written (failed before: "
                      f"{self._num_failures}).", flush=True)  # fmt: skip
            self._num_failures, self.problem, self.lacks_space = 0, None, False
            return False
        self.lacks_space = is_disk_full(error)
        if not (self.lacks_space or is_transient(error) or isinstance(error, self._tolerated)):
            return False
        self._num_failures += 1
        self.problem = self._describe(error)
        if self._clock() - self._warned_at >= WARNING_PERIOD_SECS:
            self._warned_at = self._clock()
            print(f"{self.problem} in {self._folder}; it is tried again.", flush=True)
        return True

    def _describe(self, error: BaseException) -> str:
        if is_disk_full(error):
            with contextlib.suppress(OSError):
                return shortage(self._what, self._needed_bytes(), free_bytes(self._folder))
        return f"DISK ERROR: {self._what} cannot be written ({error})"


class _Output(io.FileIO):
    """Drops what does not fit on the disk."""

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            if not is_disk_full(error):
                raise
        return size


def keep_printing_on_full_disk() -> None:
    """Makes `print` drop output that does not fit on a log's disk, instead of raising."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.flush()
        output = io.TextIOWrapper(
            _Output(stream.fileno(), "w", closefd=False),
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, output)
