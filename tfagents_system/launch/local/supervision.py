"""Finds out whether programs of this host are alive, by named pipes and locks of this host.

Status and profile read nothing of a service folder except its `starts`.
"""

import os
import pathlib

from tfagents_system.core.state.file_locks import is_locked


def is_supervised(service: pathlib.Path) -> bool:
    """Returns whether a supervise runs for the service."""
    try:
        os.close(os.open(service / "supervise" / "ok", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # the named pipe has no reader
        return False
    return True


def is_alive(service: pathlib.Path) -> bool:
    """Returns whether the service's supervise or program is alive: either holds its lock."""
    return is_locked(service / "lock")
