"""Limits the log of a program, however much a simulator prints."""

import contextlib
import os
import pathlib
import shutil
import stat
import sys
import time

from tfagents_system.core.process.background import start_thread
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.core.state.files import temporary_name

MAX_BYTES = 50 * 10**6
PERIOD_SECS = 1.0


class LogLimit:
    """Moves the end of a log that has grown too long to <log>.1, and begins the log again.

    The file stays the same, so that processes of the simulator, which may have it open, write into
    it from its beginning. Lines that arrive during the move are lost.
    """

    def __init__(self, descriptor: int, max_bytes: int):
        """Takes a descriptor of the log, open for appending, which must stay open."""
        self._descriptor = descriptor
        self._max_bytes = max_bytes

    @OnlyReports("limit of the log")
    def check(self) -> None:
        """Moves the log if it is longer than its limit; on a full disk, it is dropped."""
        if os.fstat(self._descriptor).st_size <= self._max_bytes:
            return
        # Not the name that it had at the start: the experiment may have been renamed.
        log = pathlib.Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))
        older = log.with_name(f"{log.name}.1")
        unfinished = temporary_name(older)
        try:
            with log.open("rb") as source, unfinished.open("wb") as target:
                source.seek(-self._max_bytes, os.SEEK_END)
                shutil.copyfileobj(source, target)
            os.replace(unfinished, older)
            what = f"its end is in {older.name}"
        except OSError as error:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            what = f"it is lost: {error.strerror}"
        os.ftruncate(self._descriptor, 0)
        print(f"This log was longer than {format_bytes(self._max_bytes)}; {what}.", flush=True)


def limit_log() -> None:
    """Limits standard output, if it is a file, in a thread, because a simulator may take long."""
    descriptor = os.dup(sys.stdout.fileno())  # user code may close the program's own
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return
    limit = LogLimit(descriptor, MAX_BYTES)

    def check_for_ever() -> None:
        while True:
            time.sleep(PERIOD_SECS)
            limit.check()

    start_thread(check_for_ever, "log limit")
