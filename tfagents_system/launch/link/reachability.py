"""Finds out whether another host is reachable: tries addresses and inspects open connections."""

import contextlib
import os
import pathlib
import queue
import re
import socket
import threading

from tfagents_system.launch.link.hosts import Link

TIMEOUT_SECS = 2.0  # of one address
ESTABLISHED = "01"  # linux/tcp_states.h


class Probe:
    """Tries the addresses of a link, in the background, until all have answered or failed."""

    def __init__(self, link: Link):
        """Begins; looking up a name may take long."""
        self._answered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._ask, args=(host, link.port), daemon=True)
            for host in link.hosts
        ]
        for thread in self._threads:
            thread.start()

    def address(self) -> str | None:
        """Returns an address that has answered, as `host:port`; None if none has yet."""
        return None if self._answered.empty() else self._answered.get_nowait()

    def is_over(self) -> bool:
        """Returns whether no further address will answer."""
        return not any(thread.is_alive() for thread in self._threads) and self._answered.empty()

    def _ask(self, host: str, port: int) -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return
        for *_, address in found:
            try:
                socket.create_connection(address[:2], timeout=TIMEOUT_SECS).close()
            except OSError:
                continue
            self._answered.put(f"{address[0]}:{port}")
            return


def is_stalled(pid: int) -> bool:
    """Returns whether a connection of a process waits for an answer of the other host's kernel.

    Such a connection has retransmitted data, or sent two keep-alive probes.
    """
    links, lines = [], []
    with contextlib.suppress(OSError):  # the process has just ended
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                links.append(os.readlink(link))
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):  # a kernel without IPv6
            lines += pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()
    sockets = set(re.findall(r"socket:\[(\d+)\]", " ".join(links)))
    return any(is_stalled_row(line.split(), sockets) for line in lines)


def is_stalled_row(fields: list[str], sockets: set[str]) -> bool:
    """Returns whether a line of /proc/net/tcp describes a stalled connection of `sockets`."""
    if len(fields) < 10 or fields[3] != ESTABLISHED or fields[9] not in sockets:
        return False
    sent_again, asked = int(fields[6], 16), int(fields[8])
    return sent_again >= 1 or asked >= 2
