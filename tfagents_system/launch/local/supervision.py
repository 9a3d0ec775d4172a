"""Finds out whether programs of this host live, by named pipes and locks of this host.

Status and profile take nothing else of a service folder than its `starts`.
"""

import os
import pathlib

from tfagents_system.core.state.file_locks import is_locked


def is_supervised(service: pathlib.Path) -> bool:
    """Returns whether a supervise looks after the service."""
    try:
        os.close(os.open(service / "supervise" / "ok", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # nobody reads this named pipe
        return False
    return True


def is_alive(service: pathlib.Path) -> bool:
    """Returns whether its supervise or its program lives: either holds the service's lock."""
    return is_locked(service / "lock")
