"""Retries reads that a disk, usually a network disk, refuses for a moment."""

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from tfagents_system.core.errors import StorageError

PATIENCE_SECS = 60.0
FIRST_DELAY_SECS, LONGEST_DELAY_SECS = 0.1, 5.0
TRANSIENT = frozenset(
    {
        errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.EBUSY,
        errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH,
        errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN,
        errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOLCK,
        errno.EREMOTEIO, errno.ENXIO,
    }
)  # fmt: skip

_T = TypeVar("_T")


def is_transient(error: BaseException) -> bool:
    """Returns whether `error` means that the disk does not answer now, whatever the file.

    TensorFlow and Reverb have exceptions of their own, which quote the system's message.
    """
    if isinstance(error, OSError):
        return error.errno in TRANSIENT
    return any(os.strerror(number) in str(error) for number in TRANSIENT)


def patiently(read: Callable[[], _T], what: str) -> _T:
    """Returns the result of `read`, which is called again while the disk does not answer.

    Args:
      read: May be called several times.
      what: Names what is read, for the messages.

    Raises:
      StorageError: If the disk has not answered for PATIENCE_SECS.
    """
    deadline, delay = time.monotonic() + PATIENCE_SECS, FIRST_DELAY_SECS
    while True:
        try:
            return read()
        except OSError as error:
            if not is_transient(error):
                raise
            if time.monotonic() >= deadline:
                raise StorageError(
                    f"{what} cannot be read ({error}), nor could it for {PATIENCE_SECS:g} s. "
                    "Nothing was changed: once the disk answers, the same command resumes."
                ) from error
            if delay == FIRST_DELAY_SECS:
                for_long = f"it is tried again for {PATIENCE_SECS:g} s."
                print(f"{what} cannot be read ({error}); {for_long}", flush=True)
            time.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_SECS)
