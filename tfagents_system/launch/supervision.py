"""What can be seen of a service from outside: whether its supervise and its program live."""

import fcntl
import os
import pathlib


def is_supervised(service: pathlib.Path) -> bool:
    """Returns whether a supervise looks after the service."""
    try:
        os.close(os.open(service / "supervise" / "ok", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # nobody reads this named pipe
        return False
    return True


def is_alive(service: pathlib.Path) -> bool:
    """Returns whether its supervise or its program lives: either holds the service's lock."""
    try:
        with (service / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
