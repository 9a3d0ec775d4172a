"""Ends a process reliably, even if user code is still running or its output has no reader."""

import atexit
import os
import pathlib
import select
import sys
import threading
import traceback
from collections.abc import Collection, Sequence
from typing import NoReturn

from tfagents_system.core.display import printable_lines, without_secrets
from tfagents_system.core.errors import (
    EXIT_CONFIG,
    EXIT_STORAGE,
    EXIT_SUPERSEDED,
    ConfigError,
    StorageError,
    SupersededError,
)
from tfagents_system.core.process.guest import UserCodeError, user_traceback
from tfagents_system.core.process.processes import end, leftovers

EXIT_BROKEN_OUTPUT = 141  # 128 + SIGPIPE, as in shells: the reader has gone
EXIT_HANDLERS_SECS = 3.0  # time limit of `atexit` handlers, which may end simulators


def is_output_broken() -> bool:
    """Returns whether standard output or error has lost its reader, as with `| head`."""
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                return True
        except (AttributeError, OSError, ValueError):  # closed, or replaced
            continue
    return False


def discard_output() -> None:
    """Discards what would still be written to a broken standard output or error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def tell(argv: Sequence[str], error: Exception) -> int:
    """Prints why the program ends, for its user; returns the exit code."""
    if isinstance(error, BrokenPipeError) and is_output_broken():
        discard_output()
        return EXIT_BROKEN_OUTPUT
    if isinstance(error, ConfigError):
        print_error(argv, error)
        return EXIT_CONFIG
    if isinstance(error, SupersededError):
        print_error(argv, error)
        return EXIT_SUPERSEDED
    if isinstance(error, StorageError):
        print_error(argv, error)
        return EXIT_STORAGE
    if isinstance(error, UserCodeError):
        print(user_traceback(error), file=sys.stderr)
        print_error(argv, error)
    else:
        traceback.print_exception(error)
    return 1


def print_error(argv: Sequence[str], error: Exception) -> None:
    """Prints `error` on standard error, after the name of the program."""
    message = printable_lines(without_secrets(f"{pathlib.Path(argv[0]).name}: {error}"))
    print(message, file=sys.stderr)


def leave(code: int, threads_before: Collection[threading.Thread]) -> NoReturn:
    """Ends a command, without waiting for threads that user code has started.

    Args:
      code: Exit code.
      threads_before: The threads at the start of the command.
    """
    left = (t for t in threading.enumerate() if not t.daemon and t not in threads_before)
    if any(thread is not threading.current_thread() for thread in left):
        end_process(code)
    sys.exit(code)


def end_process(code: int, runs_handlers: bool = True) -> NoReturn:
    """Ends the process at once, without waiting for threads or static destructors.

    Processes that it has started and left running end first.

    Args:
      code: Exit code.
      runs_handlers: Whether to call the handlers of `atexit`, for a limited time.
    """
    if runs_handlers:
        handlers = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        handlers.start()
        handlers.join(EXIT_HANDLERS_SECS)
    end(leftovers)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # replaced, broken or closed
            continue
    os._exit(code)
