"""Starts and ends every program of a run: signals, exit codes, scheduling."""

import contextlib
import faulthandler
import functools
import logging
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tfagents_system.core.errors import (
    EXIT_CONFIG,
    EXIT_DIVERGED,
    EXIT_FINISHED,
    EXIT_NOT_BEGUN,
    EXIT_STOPPED,
    EXIT_STORAGE,
    EXIT_SUPERSEDED,
    Interrupt,
)
from tfagents_system.core.process.ending import EXIT_BROKEN_OUTPUT, end_process, tell
from tfagents_system.core.process.guest import GUEST, UserCodeError
from tfagents_system.core.process.process_start import end_imports
from tfagents_system.core.process.processes import adopt_orphans, keep_descriptors
from tfagents_system.core.programs.command_line import of_user, with_arguments
from tfagents_system.core.settings.variables import env_timeout_secs
from tfagents_system.core.state.disk import SpaceGuard, keep_printing_on_full_disk
from tfagents_system.core.state.failure_reports import report_failure
from tfagents_system.core.state.files import overwrite
from tfagents_system.core.state.log_limit import limit_log
from tfagents_system.core.state.paths import ExperimentPaths

EXIT_CODES = (
    EXIT_FINISHED, EXIT_STOPPED, EXIT_DIVERGED, EXIT_CONFIG, EXIT_SUPERSEDED, EXIT_NOT_BEGUN,
    EXIT_STORAGE, EXIT_BROKEN_OUTPUT, 1,
)  # fmt: skip
_STOPS = (signal.SIGTERM, signal.SIGINT)
LOOK_PERIOD_SECS = 1.0  # between checks whether supervise wants the program down
EXIT_CODE_FILE_VARIABLE = "SERVICE_EXIT_CODE_FILE"  # set by the service's run script


def neighbour_service(name: str) -> pathlib.Path | None:
    """Returns the service folder of another program of this share; None outside of a share."""
    file = os.environ.get(EXIT_CODE_FILE_VARIABLE)
    return pathlib.Path(file).parent.with_name(name) if file else None


class StopFlag:
    """True once the program has received SIGTERM or SIGINT.

    It is also true once supervise wants the program down, because user code may ignore signals
    during each env step. Further signals change nothing in a program of a run, whose launcher
    repeats them; in one that a person has started, the second one raises Interrupt.
    """

    def __init__(self) -> None:
        """Installs the handlers; main thread only."""
        self._is_set = self._has_handled = False
        file = os.environ.get(EXIT_CODE_FILE_VARIABLE)
        self._service = pathlib.Path(file).parent if file else None
        self._look_at = 0.0
        for number in _STOPS:
            signal.signal(number, self._handle)
        # Python writes signal numbers there even while user code has its own handlers.
        self._arrived, writer = os.pipe()
        for descriptor in (self._arrived, writer):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def _handle(self, number: int, frame: object) -> None:
        if self._has_handled and self._service is None:  # user code does not return
            raise Interrupt(number)
        self._is_set = self._has_handled = True

    def __bool__(self) -> bool:
        if not self._is_set:
            with contextlib.suppress(OSError):  # nothing has arrived
                self._is_set = any(n in _STOPS for n in os.read(self._arrived, 4096))
        if not self._is_set and self._service and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_PERIOD_SECS
            self._is_set = _is_wanted_down(self._service)
        return self._is_set


def _is_wanted_down(service: pathlib.Path) -> bool:
    """Returns whether `svc -d` has been called for a service, from supervise's status file.

    The file's last byte is "u" or "d": the wanted state.
    """
    try:
        return (service / "supervise" / "status").read_bytes()[-1:] == b"d"
    except OSError:  # not started by supervise, or the folder is gone: only signals count
        return False


def run_program(main: Callable[..., int], argv: Sequence[str]) -> NoReturn:
    """Calls `main` with the arguments of the command line `argv`, and exits with its exit code.

    `main` gets the StopFlag as its keyword argument `stop`, and returns EXIT_FINISHED, EXIT_STOPPED
    or EXIT_DIVERGED. A ConfigError, SupersededError or StorageError becomes one line on standard
    error and exit code 78, 75 or 74. Any other exception is printed with its traceback and exits
    with 1, or with EXIT_NOT_BEGUN if user code raised it before the first env step of any use.
    In a program that is in no run, a file that cannot be read or written is wrong input, too, and a
    second signal ends `main`, with EXIT_STOPPED.
    The exit code is written to the file named by the variable SERVICE_EXIT_CODE_FILE, because
    daemontools does not tell a run script how its predecessor ended. Processes that the program
    has left running are ended.
    """
    keep_descriptors()  # simulators must not inherit the run's locks
    for library in ("absl", "tensorflow"):  # they log every SavedModel they write
        logging.getLogger(library).setLevel(logging.WARNING)
    faulthandler.enable()  # so that a crash in a library leaves its stack in the log
    _name_process(pathlib.Path(argv[0]).name)
    prefer_throughput()
    exit_code_file = os.environ.get(EXIT_CODE_FILE_VARIABLE)
    if exit_code_file:
        keep_printing_on_full_disk()  # its output is a log
        limit_log()
        _report(exit_code_file, "")  # if it stays empty, a signal has killed the program
        GUEST.mark = functools.partial(_mark_visit, exit_code_file)
    else:
        adopt_orphans()  # for a program of a run, its supervise does this
    try:
        stop = StopFlag()
        end_imports()
        GUEST.remember()
        call = with_arguments(main, argv)
        with GUEST.watching(env_timeout_secs(os.environ)):
            code = call(stop=stop)
        sys.stdout.flush()
    except Interrupt:
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)
        code = EXIT_STOPPED
    except UserCodeError as error:
        tell(argv, error)
        code = 1 if GUEST.has_stepped and not error.kept_nothing else EXIT_NOT_BEGUN
        if exit_code_file:
            _report_failure(call.keywords, pathlib.Path(exit_code_file).parent.name, error)
    except Exception as error:
        code = tell(argv, error if exit_code_file else of_user(error))
    assert code in EXIT_CODES
    if exit_code_file:
        _report(exit_code_file, f"{code}\n")
    # Reverb and TensorFlow threads can hang or abort in static destructors.
    end_process(code, runs_handlers=GUEST.was_visited)


def _report_failure(arguments: Mapping[str, Any], service: str, error: UserCodeError) -> None:
    """Shows user code's exception in the status line, even before the program reports."""
    if "exp_dir" in arguments:
        report_failure(ExperimentPaths(pathlib.Path(arguments["exp_dir"])), service, str(error))


def _mark_visit(exit_code_file: str, is_inside: bool) -> None:
    """Prepares the exit code for the case that user code kills the program in this visit."""
    _report(exit_code_file, f"{EXIT_NOT_BEGUN}\n" if is_inside else "")


def _name_process(name: str) -> None:
    """Makes `top` and `ps` show the program's name instead of "python"."""
    with contextlib.suppress(OSError):  # only Linux has this file
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
    """Sets the scheduling policy if the system supports and allows it."""
    if not hasattr(os, policy):  # macOS
        return
    with contextlib.suppress(PermissionError):  # in some containers
        os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
