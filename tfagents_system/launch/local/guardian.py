"""Ends what a share has started, however its train_script.sh has ended.

Usage: python -m tfagents_system.launch.local.guardian SERVICES

SIGTERM says that all services have ended: what is left below train_script.sh, or carries the mark
of one of its programs, is what user code has started. If train_script.sh is killed, the programs
have got SIGTERM and save; one that lives on after its time (stop_times.sh), because user code keeps
the signal from it, is killed with all that it has started.
"""

import functools
import os
import pathlib
import signal
import sys
import time
from collections.abc import Mapping

from tfagents_system.core.errors import EXIT_CONFIG
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
    """Returns the mark of each service, by its name; see service_dirs.py."""
    return {path.parent.name: path.read_text() for path in services.glob("*/mark")}


def end_share(parent: int, marks: Mapping[str, str]) -> None:
    """Ends all that is left of a share whose services have ended, below the process `parent`."""

    def find() -> set[Process]:
        return {p for p in descendants(parent) | marked(marks.values()) if p.pid != os.getpid()}

    end(find, kill_secs=stop_times.LEFTOVERS_SECS / 2)


def end_orphans(marks: Mapping[str, str]) -> None:
    """Waits until the programs of a share have ended by themselves; kills those that do not."""
    began = time.monotonic()
    left = dict(marks)
    while marked(left.values()):
        for service in list(left):
            if time.monotonic() - began > stop_times.secs_of(service):
                mark = left.pop(service)
                end(functools.partial(marked, [mark]), grace_secs=0.0)
        time.sleep(PERIOD_SECS)


def main(argv: list[str]) -> None:
    """Waits for the end of train_script.sh, or its order; returns when nothing is left."""
    if len(argv) != 2 or argv[1].startswith("-"):
        print(__doc__.splitlines()[2], file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    parent = os.getppid()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    close_descriptors()  # the run's locks are not for this program to hold
    marks = read_marks(pathlib.Path(argv[1]))
    while os.getppid() == parent:
        if signal.sigtimedwait([signal.SIGTERM], PERIOD_SECS) is not None:
            end_share(parent, marks)
            return
    end_orphans(marks)


if __name__ == "__main__":
    main(sys.argv)
