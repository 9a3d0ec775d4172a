"""The errors and exit codes that programs report to their user and their supervisor."""

import signal

EXIT_FINISHED = 0
EXIT_NOT_BEGUN = 69  # user code failed, or ended the program, before the first env step of use
EXIT_DIVERGED = 70  # training gave numbers that are not finite; restarting would repeat it
EXIT_STORAGE = 74  # EX_IOERR of sysexits.h: the disk fails; what was not saved is lost
EXIT_SUPERSEDED = 75  # a later start has taken over: core/state/incarnation.py; never restarted
EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h: the input is wrong; restarting cannot help
EXIT_STOPPED = 143  # 128 + SIGTERM: stopped on request, state saved


class ConfigError(Exception):
    """The user's input is wrong; the message tells what, where it came from and what is allowed."""


class SupersededError(Exception):
    """A later start of this program has taken over; the message names it."""


class Interrupt(KeyboardInterrupt):
    """A signal that ends one of our commands; other KeyboardInterrupts in user code are its own."""

    def __init__(self, number: int = signal.SIGINT):
        """Takes the signal's number."""
        super().__init__()
        self.exit_code = 128 + number  # as of shells


class StorageError(Exception):
    """The disk does not answer; the message tells what could not be read or saved, and why."""
