"""A throw-away Ray of a head and several nodes on this machine: real daemons, real failures."""

import contextlib
import importlib.util
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from namespaces import needs_namespaces

from benchmarks.network import Host, network
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.waiting import wait_until

NAMESPACES = ("--uts", "--ipc", "--mount", "--pid")
LIFETIME_SECS = 900  # of a host
START_SECS = 120  # of Ray on a host, at most: it imports much, and other tests have the CPUs
PORT, CLIENT_PORT = 6379, 10001
CPUS = 2  # of each node; the head has none
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# Process 1 of a host, whose end is the end of all. DIR/tmp is each host's own.
FIRST_PROCESS = """
name=$1 dir=$2 secs=$3
hostname "$name"
mount --bind "$dir/hosts" /etc/hosts
mount --bind "$dir/$name" "$dir/tmp"
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
touch "$dir/tmp/is_up"
sleep "$secs" &
wait $!
"""

# Prints what Ray itself knows.
ASK = """
import json, sys, ray
from ray._private import state
ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
groups = ray.util.placement_group_table().values()
print(json.dumps({
    "actors": {actor["Name"]: hosts.get(actor["Address"]["NodeID"])
               for actor in state.actors().values() if actor["State"] == "ALIVE"},
    "groups": [group["name"] for group in groups if group["state"] != "REMOVED"],
    "cpus": ray.cluster_resources().get("CPU", 0),
    "free_cpus": ray.available_resources().get("CPU", 0),
}))
"""


class RayHost:
    """A host; its name, network, processes, /dev/shm and temporary files are its own."""

    def __init__(self, name: str, host: Host, folder: pathlib.Path):
        self.name = name
        self.address = host.address
        self.temporary = folder / name  # which is folder / "tmp" there
        self._host = host
        self._folder = folder
        self.boot()

    def boot(self) -> None:
        """Starts it, without any temporary file."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        unshare = ("unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc")
        first = ("bash", "-ec", FIRST_PROCESS, "bash", self.name, self._folder, LIFETIME_SECS)
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self._host.command(*unshare, *first)],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PATH": PATH},
        )
        wait_until((self.temporary / "is_up").exists, 60, f"the host {self.name}")
        holder = self._holder.pid
        children = _read(pathlib.Path(f"/proc/{holder}/task/{holder}/children"))
        self._first_process = int(children.split()[0])
        self._namespace = os.readlink(f"/proc/{self._first_process}/ns/pid")

    def enter(self, *command: str, folder: pathlib.Path = pathlib.Path("/")) -> list[str]:
        """Returns the command that runs another one there, as its only child."""
        options = ("-n", "-u", "-i", "-m", "-p", f"--wdns={folder}")
        return ["nsenter", "-t", str(self._first_process), *options, *command]

    def processes(self, word: str = "") -> dict[int, str]:
        """Returns {pid: command line} of all that run there with the word in their environment."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # ended meanwhile
                is_here = os.readlink(process / "ns/pid") == self._namespace
                if is_here and word in (process / "environ").read_text(errors="replace"):
                    found[int(process.name)] = _read(process / "cmdline").replace("\0", " ")
        return found

    def kill(self) -> None:
        """Ends all of its processes at once; their connections are closed."""
        self._holder.kill()
        self._holder.wait()
        wait_until(lambda: not self.processes(), 60, f"the end of {self.name}")

    def lose(self) -> None:
        """Kills it as a loss of power does: nobody is told."""
        self._host.unplug()
        self.kill()

    def boot_again(self) -> None:
        """Starts it after `lose` or `kill`, at its old address."""
        self.kill()
        subprocess.run(self._host.command("ip", "link", "set", "eth0", "up"), check=True)
        self.boot()


class RayCluster:
    """A running Ray; `nodes` have CPUS each, the `head` none; `login` is no part of it.

    `environ` are the variables for whatever connects to it.
    """

    def __init__(self, folder: pathlib.Path, hosts: list[Host], environ: Mapping[str, str]):
        names = ["head", *(f"n{k}" for k in range(1, len(hosts) - 1)), "login"]
        lines = [f"{host.address} {name}" for host, name in zip(hosts, names, strict=True)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        (folder / "tmp").mkdir()
        self.environ = environ | {"RAY_TMPDIR": f"{folder}/tmp", "TMPDIR": f"{folder}/tmp"}
        self.hosts: dict[str, RayHost] = {}
        try:
            for name, host in zip(names, hosts, strict=True):
                self.hosts[name] = RayHost(name, host, folder)
        except BaseException:
            self.end()
            raise
        self.head, *self.nodes, self.login = self.hosts.values()
        self.address = f"{self.head.address}:{PORT}"
        self.client_address = f"ray://{self.head.address}:{CLIENT_PORT}"

    def start(self) -> None:
        """Starts Ray on the head, then on all nodes at once."""
        self._start_on([self.head], "--head", f"--port={PORT}", "--num-cpus=0",
            "--include-dashboard=false", f"--ray-client-server-port={CLIENT_PORT}",
            f"--temp-dir={self.environ['TMPDIR']}")  # fmt: skip
        self._start_on(self.nodes, f"--address={self.address}", f"--num-cpus={CPUS}")

    def _start_on(self, hosts: Sequence[RayHost], *options: str) -> None:
        started = [(host, self._start_ray(host, *options)) for host in hosts]
        for host, process in started:
            code = process.wait(timeout=START_SECS)
            assert code == 0, f"{host.name}: {_read(host.temporary / 'ray_start.log')}"

    def _start_ray(self, host: RayHost, *options: str) -> subprocess.Popen[str]:
        common = (f"--node-ip-address={host.address}", "--object-store-memory=80000000")
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *common, *options]
        # A file, because the daemons keep a pipe open.
        with (host.temporary / "ray_start.log").open("w") as output:
            return subprocess.Popen(
                host.enter(*command), env=os.environ | {"PATH": PATH} | self.environ,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True,
            )  # fmt: skip

    def ask(self) -> dict[str, Any]:
        """Returns the hosts of living actors by name, names of placement groups, and CPUs."""
        answer = subprocess.run(
            self.head.enter(sys.executable, "-c", ASK, self.address), capture_output=True,
            env=os.environ | self.environ, text=True, timeout=START_SECS, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout.splitlines()[-1])

    def logs(self) -> str:
        """Returns the ends of what Ray's daemons say of the nodes' deaths."""
        files = sorted(self.head.temporary.glob("session_2*/logs/gcs_server.out"))
        return "\n".join(f"--- {file}\n{_read(file)[-3000:]}" for file in files)

    def end(self) -> None:
        """Ends all hosts."""
        for host in self.hosts.values():
            host.kill()


@contextlib.contextmanager
def ray_cluster(num_nodes: int, is_secure: bool = False) -> Iterator[RayCluster]:
    """Starts a Ray for the time of the block; skips the test where that is impossible.

    Args:
      num_nodes: Nodes with CPUs; a head without any is added.
      is_secure: Whether Ray asks for a token and encrypts.
    """
    if importlib.util.find_spec("ray") is None:
        pytest.skip("the package ray is missing: ./setup.sh --with ray")
    if os.geteuid() != 0:
        pytest.skip("Ray's nodes are namespaces, which takes root")
    needs_namespaces()
    # Short, as it holds unix sockets.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ray."))
    try:
        with contextlib.ExitStack() as stack:
            try:
                hosts = stack.enter_context(network(num_nodes + 2))
            except ConfigError as error:
                pytest.skip(str(error))
            # Where CPUs are scarce, an agent takes more than the usual 30 s to report.
            environ = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_agent_register_timeout_ms": "100000"}
            if is_secure:
                environ |= _make_secrets(folder, [host.address for host in hosts])
            cluster = RayCluster(folder, hosts, environ)
            stack.callback(cluster.end)
            cluster.start()
            yield cluster
    finally:
        shutil.rmtree(folder)


def _make_secrets(folder: pathlib.Path, addresses: list[str]) -> dict[str, str]:
    """Makes a token and a certificate; returns Ray's variables for them."""
    token, key, certificate = (folder / name for name in ("token", "key.pem", "certificate.pem"))
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    names = ",".join(["DNS:localhost", *(f"IP:{ip}" for ip in ("127.0.0.1", *addresses))])
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=ray", "-addext", f"subjectAltName={names}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate), "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(certificate),
    }  # fmt: skip


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:  # ended meanwhile
        return ""
