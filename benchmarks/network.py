"""Simulates several hosts by network namespaces that can reach only each other."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tfagents_system.core.errors import ConfigError

QUEUE = ("burst", "256kb", "latency", "20ms")  # queue of an interface with a rate limit


class Host(NamedTuple):
    """A network namespace."""

    name: str
    address: str

    def command(self, *argv: object) -> list[str]:
        """Returns the command that runs `argv` on this host."""
        return ["ip", "netns", "exec", self.name, *map(str, argv)]

    def python(self, module: str, *arguments: object) -> list[str]:
        """Returns the command that runs a module of this project on this host."""
        return self.command(sys.executable, "-m", module, *arguments)

    def traffic(self) -> tuple[int, int]:
        """Returns the bytes received from other hosts, and sent to them."""
        (device,) = json.loads(_ip("-n", self.name, "-json", "-s", "link", "show", "eth0"))
        return device["stats64"]["rx"]["bytes"], device["stats64"]["tx"]["bytes"]

    def unplug(self) -> None:
        """Disconnects this host silently."""
        _ip("-n", self.name, "link", "set", "eth0", "down")

    def cut(self, other: "Host") -> None:
        """Silently drops packets to another host; packets from it arrive."""
        nowhere = ("lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
        _ip("-n", self.name, "neigh", "replace", other.address, *nowhere)

    def mend(self, other: "Host") -> None:
        """Ends `cut`."""
        _ip("-n", self.name, "neigh", "del", other.address, "dev", "eth0")


@contextlib.contextmanager
def network(num_hosts: int, mbit_per_sec: int | None = None) -> Iterator[list[Host]]:
    """Makes hosts that reach only each other; removes them at the end.

    Args:
      num_hosts: Number of hosts.
      mbit_per_sec: Limit of sending and of receiving, for each host; None: no limit.

    Raises:
      ConfigError: If this user may not make network namespaces.
    """
    name = f"sac{os.getpid()}"
    base = f"10.224.{os.getpid() % 250 + 1}"
    hosts = [Host(f"{name}n{k}", f"{base}.{k}") for k in range(1, num_hosts + 1)]
    with contextlib.ExitStack() as stack:
        _ip("link", "add", name, "type", "bridge")
        stack.callback(_ip, "link", "del", name)
        _ip("link", "set", name, "up")
        for index, host in enumerate(hosts):
            _ip("netns", "add", host.name)
            stack.callback(_ip, "netns", "del", host.name)
            end = f"{name}e{index}"
            _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            # The kernel also removes it with its namespace, but later.
            stack.callback(_ip, "link", "del", end)
            _ip("link", "set", end, "master", name, "up")
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", host.name, "link", "set", device, "up")
            if mbit_per_sec is not None:
                limit = ("root", "tbf", "rate", f"{mbit_per_sec}mbit", *QUEUE)
                _run("tc", "-n", host.name, "qdisc", "add", "dev", "eth0", *limit)
                _run("tc", "qdisc", "add", "dev", end, *limit)
        yield hosts


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout
    except FileNotFoundError:
        raise ConfigError(f"There is no {command[0]} on PATH: install iproute2.") from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"No network of hosts can be made here, which takes root: "
                          f"{error.stderr.strip()}") from None  # fmt: skip
