"""Ends all processes that a share has started, however its train_script.sh has ended.

Usage: python -m tfagents_system.launch.local.guardian SERVICES

SIGTERM means that all services have ended: the processes left below train_script.sh, or with the
mark of one of its programs, were started by user code. If train_script.sh is killed, the programs
have received SIGTERM and save; a program that is still alive after its time limit (stop_times.sh),
because user code blocks the signal, is killed with everything that it has started.
"""

import functools
import os
import pathlib
import signal
import sys
import time
from collections.abc import Mapping

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.core.process.process_start import end_imports
from tfagents_system.core.process.processes import (
    Process,
    close_descriptors,
    descendants,
    end,
    marked,
)
from tfagents_system.launch.local import stop_times

PERIOD_SECS = 0.5


def read_marks(services: pathlib.Path) -> dict[str, str]:
    """Returns the marks of services by name; see service_dirs.py."""
    return {path.parent.name: path.read_text() for path in services.glob("*/mark")}


def end_share(parent: int, marks: Mapping[str, str]) -> None:
    """Ends all processes left of a share whose services have ended, below `parent`."""

    def find() -> set[Process]:
        return {p for p in descendants(parent) | marked(marks.values()) if p.pid != os.getpid()}

    end(find, kill_secs=stop_times.LEFTOVERS_SECS / 2)


def end_orphans(marks: Mapping[str, str]) -> None:
    """Waits for the programs of a share to end by themselves, and kills those that do not."""
    began = time.monotonic()
    left = dict(marks)
    while marked(left.values()):
        for service in list(left):
            if time.monotonic() - began > stop_times.secs_of(service):
                mark = left.pop(service)
                end(functools.partial(marked, [mark]), grace_secs=0.0)
        time.sleep(PERIOD_SECS)


def main(argv: list[str]) -> None:
    """Waits for the end of train_script.sh, or its SIGTERM; returns when nothing is left."""
    if len(argv) != 2 or argv[1].startswith("-"):
        print(__doc__.splitlines()[2], file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    parent = os.getppid()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    close_descriptors()  # this program must not hold the run's locks
    marks = read_marks(pathlib.Path(argv[1]))
    while os.getppid() == parent:
        if signal.sigtimedwait([signal.SIGTERM], PERIOD_SECS) is not None:
            end_share(parent, marks)
            return
    end_orphans(marks)


if __name__ == "__main__":
    end_imports()
    main(sys.argv)
