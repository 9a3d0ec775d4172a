"""Finds TCP ports for the replay server."""

import errno
import socket

from tfagents_system.core.errors import ConfigError


def free_port() -> int:
    """Returns a port on which nothing listens now; another program may still take it."""
    with _listen(0) as listener:
        return int(listener.getsockname()[1])


def check_port_is_free(port: int) -> None:
    """Raises ConfigError if another program listens on `port`.

    gRPC sets SO_REUSEPORT: a second Reverb server on the port would start without an error and
    share the clients of the first. A listener without that option is refused, as it should be.
    """
    try:
        _listen(port).close()
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "in use by another program" if error.errno == errno.EADDRINUSE else "not allowed"
        raise ConfigError(
            f"SAC_REVERB_PORT is {port}, which is {reason} on this machine. "
            "Set another port, or auto for a free one."
        ) from error


def _listen(port: int) -> socket.socket:
    # create_server sets SO_REUSEADDR: connections of an ended server in TIME_WAIT do not count.
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
