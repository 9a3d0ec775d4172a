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


def patiently(
    read: Callable[[], _T],
    what: str,
    timeout_secs: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Returns the result of `read`, which is called again while the disk does not answer.

    Args:
      read: May be called several times.
      what: Names what is read, for the messages.
      timeout_secs: PATIENCE_SECS if None.
      clock: In seconds.
      sleep: Waits for a number of seconds.

    Raises:
      StorageError: If the disk has not answered for `timeout_secs`.
    """
    limit = PATIENCE_SECS if timeout_secs is None else timeout_secs
    deadline, delay = clock() + limit, FIRST_DELAY_SECS
    while True:
        try:
            return read()
        except OSError as error:
            if not is_transient(error):
                raise
            if clock() >= deadline:
                raise StorageError(
                    f"{what} cannot be read ({error}), nor could it for {limit:g} s. Nothing was "
                    "changed: once the disk answers, the same command resumes."
                ) from error
            if delay == FIRST_DELAY_SECS:
                print(f"{what} cannot be read ({error}); it is tried again for {limit:g} s.",
                      flush=True)  # fmt: skip
            sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY_SECS)
