"""Starts and ends every program of a run: signals, exit codes, scheduling."""

import contextlib
import faulthandler
import logging
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from tfagents_system.core.command_line import print_error, with_arguments
from tfagents_system.core.disk import SpaceGuard, keep_printing_on_full_disk
from tfagents_system.core.errors import (
    EXIT_CONFIG,
    EXIT_DIVERGED,
    EXIT_FINISHED,
    EXIT_STOPPED,
    EXIT_SUPERSEDED,
    ConfigError,
    SupersededError,
)
from tfagents_system.core.files import overwrite

EXIT_CODE_FILE_VARIABLE = "SERVICE_EXIT_CODE_FILE"  # set by the service's run script


def neighbour_service(name: str) -> pathlib.Path | None:
    """Returns the service folder of another program of this share; None if there is no share."""
    file = os.environ.get(EXIT_CODE_FILE_VARIABLE)
    return pathlib.Path(file).parent.with_name(name) if file else None


class StopFlag:
    """True once the program has received SIGTERM or SIGINT; further signals change nothing."""

    def __init__(self) -> None:
        """Installs the handlers; main thread only."""
        self._is_set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        self._is_set = True

    def __bool__(self) -> bool:
        return self._is_set


def run_program(main: Callable[..., int], argv: Sequence[str]) -> NoReturn:
    """Calls `main` with the arguments of the command line `argv`, and exits with what it returns.

    `main` gets the StopFlag as its keyword argument `stop`, and returns EXIT_FINISHED, EXIT_STOPPED
    or EXIT_DIVERGED. A ConfigError or SupersededError becomes one line on standard error and
    exit code 78 or 75. Any other exception is printed with its traceback and exits with 1.
    The exit code is written to the file named by the variable SERVICE_EXIT_CODE_FILE, because
    daemontools does not tell a run script how its predecessor ended.
    """
    for library in ("absl", "tensorflow"):  # they narrate every SavedModel they write
        logging.getLogger(library).setLevel(logging.WARNING)
    faulthandler.enable()  # a crash inside a library leaves its stack in the log
    _name_process(pathlib.Path(argv[0]).name)
    prefer_throughput()
    exit_code_file = os.environ.get(EXIT_CODE_FILE_VARIABLE)
    if exit_code_file:
        keep_printing_on_full_disk()  # its output is a log
        _report(exit_code_file, "")  # if it stays empty, a signal has killed the program
    try:
        code = with_arguments(main, argv)(stop=StopFlag())
    except ConfigError as error:
        print_error(argv, error)
        code = EXIT_CONFIG
    except SupersededError as error:
        print_error(argv, error)
        code = EXIT_SUPERSEDED
    except Exception:
        traceback.print_exc()
        code = 1
    assert code in (EXIT_FINISHED, EXIT_STOPPED, EXIT_DIVERGED, EXIT_CONFIG, EXIT_SUPERSEDED, 1)
    if exit_code_file:
        _report(exit_code_file, f"{code}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Reverb and TensorFlow threads can hang or abort in static destructors


def _name_process(name: str) -> None:
    """Lets `top` and `ps` show the program's name instead of "python"."""
    with contextlib.suppress(OSError):  # Linux alone has this file
        pathlib.Path("/proc/self/comm").write_text(name)


def _report(exit_code_file: str, text: str) -> None:
    path = pathlib.Path(exit_code_file)
    with SpaceGuard("exit code", path.parent):
        overwrite(path, text.encode())  # restart_budget has made room for it


def prefer_throughput() -> None:
    """Schedules this process in long time slices: a thread that wakes up does not preempt another.

    Otherwise each message that a worker hands to Reverb's sending thread costs two context switches
    on the worker's only CPU. New threads inherit this policy.
    """
    _set_scheduler("SCHED_BATCH")


def prefer_response() -> None:
    """Undoes `prefer_throughput` for the calling thread and the threads that it starts later.

    A thread that waits for a simulator or a robot then runs as soon as the answer arrives, although
    learning keeps every CPU busy.
    """
    _set_scheduler("SCHED_OTHER")


def _set_scheduler(policy: str) -> None:
    """Sets the scheduling policy where the system has it and allows it; elsewhere speed is lost."""
    if not hasattr(os, policy):  # macOS
        return
    with contextlib.suppress(PermissionError):  # of some containers
        os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
