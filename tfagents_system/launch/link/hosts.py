"""The encrypted link between a run's hosts: the core's address and the key.

Each start of the core makes a new key and publishes it, with its addresses, as `link.json` in the
experiment's folder; only its user may read that file. The relays (relay.py) follow it.
"""

import dataclasses
import fcntl
import json
import platform
import secrets
import socket
import struct
import time

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import is_finished

CORE_TIMEOUT_SECS = 600.0  # a core may have to wait for a lost core's lock
FINISHED_SECS = 60.0  # time for a continued run to remove finished.json
LOST_SECS = 60.0  # without an answer, before a host of workers counts as lost
SIOCGIFADDR = 0x8915  # linux/sockios.h


@dataclasses.dataclass(frozen=True)
class Link:
    """The addresses of one start of the core, and the key that opens it."""

    incarnation: int
    hosts: tuple[str, ...]  # names and addresses of its host; not all are reachable from here
    port: int
    key: str = dataclasses.field(repr=False)  # hexadecimal

    @classmethod
    def of_this_host(cls, incarnation: int, port: int) -> "Link":
        """Returns a link, with a new key, to a core that listens on all addresses of this host.

        Call it before the core enters its private network, which has other addresses.
        """
        hosts = (platform.node(), *own_addresses())
        return cls(incarnation, hosts, port, secrets.token_hex(32))

    def publish(self, paths: ExperimentPaths) -> None:
        """Replaces `link.json`."""
        write_json_atomically(paths.link, dataclasses.asdict(self), mode=0o600)

    @classmethod
    def read(cls, paths: ExperimentPaths) -> "Link | None":
        """Returns the newest link; None if there is none, or it cannot be read now."""
        try:
            record = json.loads(paths.link.read_text())
            return cls(record["incarnation"], tuple(record["hosts"]), record["port"], record["key"])
        except (OSError, ValueError, LookupError, TypeError):  # replaced on NFS just now
            return None


def check_hosts_are_safe(wanted: bool | None, open_because: str | None) -> None:
    """Raises ConfigError if the replay server would be open to others against the user's will.

    Args:
      wanted: SAC_PRIVATE_NETWORK.
      open_because: Why there is no private network here; see `private_network.why_open`.
    """
    if open_because is not None and wanted is not False:
        raise ConfigError(
            f"A run of several hosts needs a private network on each of them, and "
            f"{open_because}. Without one, whoever reaches this host can read and change the "
            "replay buffer. Have user and network namespaces allowed, or accept that with "
            "SAC_PRIVATE_NETWORK=0."
        )


def listen() -> socket.socket:
    """Returns a socket that listens on a free port of all addresses of this host."""
    if socket.has_dualstack_ipv6():
        server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        server = socket.create_server(("", 0))
    # Connections inherit it. Without it, TCP retries to reach a host that is gone for a quarter of
    # an hour.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * LOST_SECS))
    return server


def own_addresses() -> list[str]:
    """Returns the IPv4 addresses of this host's network interfaces, without loopback."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode())
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, request)
            except OSError:  # has none
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in found if not address.startswith("127.")]


def await_link(paths: ExperimentPaths, timeout_secs: float = CORE_TIMEOUT_SECS) -> Link | None:
    """Waits for the link of the newest core and returns it; None if the run is finished.

    Raises:
      ConfigError: If none has been published for `timeout_secs`.
    """
    began = time.monotonic()
    while (link := Link.read(paths)) is None:
        waited = time.monotonic() - began
        if is_finished(paths) and waited > FINISHED_SECS:
            return None
        if waited > timeout_secs:
            raise ConfigError(
                f"{paths.link} is missing after {waited:.0f} s: no core of this run is there. "
                "Start one (run_share core) that sees the same folder."
            )
        time.sleep(0.5)
    return link
