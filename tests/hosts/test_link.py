"""The link between hosts, which are network namespaces here: who gets through, what is followed."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

import psutil
import pytest
from namespaces import NO_MORE_NETWORKS, needs_namespaces

from benchmarks.network import Host, network
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until
from tfagents_system.launch.link import Link, check_hosts_are_safe

PROJECT = pathlib.Path(__file__).parents[2]
ECHO_CORE = pathlib.Path(__file__).with_name("echo_core.py")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Lab:
    """Hosts, an experiment's folder that all of them see, and what runs there."""

    def __init__(self, folder: pathlib.Path, hosts: list[Host], stack: contextlib.ExitStack):
        self.hosts = hosts
        self.paths = ExperimentPaths(folder / "exp")
        self.paths.root.mkdir()
        self._folder = folder
        self._stack = stack

    def start(self, host: Host, *argv: object) -> subprocess.Popen:
        """Runs a program until the end of the test, which kills it and its children."""
        process = subprocess.Popen(
            host.command(sys.executable, *argv), cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        self._stack.callback(_kill, process)
        return process

    def folder(self, name: str) -> pathlib.Path:
        """A folder of a host's own, as run_share.py makes it."""
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        return folder

    def core(self, host: Host, incarnation: int, answer: str) -> int:
        """Starts a core; returns the port of its server."""
        folder = self.folder(f"core_{incarnation}")
        core = self.start(host, ECHO_CORE, self.paths.root, folder, incarnation, answer)
        return int(core.stdout.readline())

    def relay(
        self, host: Host, name: str, paths: ExperimentPaths | None = None
    ) -> tuple[pathlib.Path, subprocess.Popen]:
        """Starts the relay of a host of workers; returns its socket and the program."""
        folder = self.folder(name)
        module = "tfagents_system.launch.relay"
        relay = self.start(host, "-m", module, (paths or self.paths).root, folder)
        wait_until((folder / "replay").exists, 20, "the relay's socket")
        return folder / "replay", relay


def _kill(process: subprocess.Popen) -> None:
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for one in (process, *family):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


@pytest.fixture
def lab(monkeypatch):
    needs_namespaces()
    if os.geteuid() != 0:
        pytest.skip("only root makes hosts of network namespaces")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin:/sbin")
    with contextlib.ExitStack() as stack:
        # Short, because the path of a Unix socket is; other users may enter.
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sac_")))
        folder.chmod(0o755)
        hosts = stack.enter_context(network(3))
        yield Lab(folder, hosts, stack)


def ask(path: pathlib.Path) -> str:
    """What comes back from behind a Unix socket; empty if it is closed without an answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            connection.connect(str(path))
            connection.sendall(b"who is there?")
            return connection.recv(100).decode()
        except (ConnectionError, FileNotFoundError):
            return ""


def succeeds(host: Host, code: str, *prefix: str) -> str:
    """Runs Python on a host; returns `yes`, or the name of the exception."""
    guarded = (
        f"try:\n    {code}\n    print('yes')\nexcept Exception as e:\n    print(type(e).__name__)"
    )
    command = host.command(*prefix, sys.executable, "-c", f"import socket, ssl\n{guarded}")
    return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()


def test_key_holders_get_through_and_nobody_else(lab):
    core, workers, others = lab.hosts
    port = lab.core(core, 1, "core 1")
    replay, _ = lab.relay(workers, "workers")
    wait_until(lambda: ask(replay) == "core 1", 20, "an answer")
    link = Link.read(lab.paths)
    assert link is not None

    # No key: neither in the clear nor with TLS.
    connect = f"c = socket.create_connection(('{core.address}', {link.port}), 5)"
    assert succeeds(others, connect) == "yes"
    clear = f"{connect}; c.sendall(b'who is there?'); assert c.recv(100)"
    assert succeeds(others, clear) in ("AssertionError", "ConnectionResetError")
    context = "k = ssl.create_default_context(); k.check_hostname = False; k.verify_mode = 0"
    assert succeeds(others, f"{context}; {connect}; k.wrap_socket(c)").startswith("SSL")

    # A wrong key, on a host from which the right one opens.
    right, _ = lab.relay(others, "right")
    wait_until(lambda: ask(right) == "core 1", 20, "an answer with the right key")
    wrong = ExperimentPaths(lab.folder("exp_of_another"))
    dataclasses.replace(link, key="0" * len(link.key)).publish(wrong)
    assert ask(lab.relay(others, "wrong", wrong)[0]) == ""

    # The server's own port, from another host and from its own.
    raw = f"socket.create_connection(('{core.address}', {port}), 5)"
    assert succeeds(others, raw) == "ConnectionRefusedError"
    local = f"socket.create_connection(('127.0.0.1', {port}), 5)"
    assert succeeds(core, local) == "ConnectionRefusedError"

    # Another user of the workers' host.
    assert succeeds(workers, f"open('{lab.paths.link}')", *NOBODY) == "PermissionError"
    through = f"socket.socket(socket.AF_UNIX).connect('{replay}')"
    assert succeeds(workers, through, *NOBODY) == "PermissionError"
    assert succeeds(workers, through) == "yes"


def test_workers_follow_a_core_that_moves_and_its_old_key_is_worthless(lab):
    first, workers, second = lab.hosts
    lab.core(first, 1, "core 1")
    replay, relay = lab.relay(workers, "workers")
    wait_until(lambda: ask(replay) == "core 1", 20, "an answer")
    old = Link.read(lab.paths)
    assert old is not None

    lab.core(second, 2, "core 2")
    wait_until(lambda: ask(replay) == "core 2", 20, "an answer of the new core")
    new = Link.read(lab.paths)
    assert new is not None and new.key != old.key
    right, _ = lab.relay(first, "with_new_key")
    wait_until(lambda: ask(right) == "core 2", 20, "an answer with the new key")
    replayed = ExperimentPaths(lab.folder("replayed"))
    dataclasses.replace(new, key=old.key).publish(replayed)
    assert ask(lab.relay(first, "with_old_key", replayed)[0]) == ""

    (stunnel,) = (c for c in psutil.Process(relay.pid).children() if "stunnel" in c.name())
    stunnel.send_signal(signal.SIGKILL)
    stunnel.wait(5)
    wait_until(lambda: ask(replay) == "core 2", 20, "an answer after stunnel was killed")
    assert relay.poll() is None


def test_link_json_is_for_its_user_alone(tmp_path):
    paths = ExperimentPaths(tmp_path)
    link = Link.of_this_host(3, 1234)
    link.publish(paths)
    assert paths.link.stat().st_mode & 0o777 == 0o600
    assert json.loads(paths.link.read_text())["incarnation"] == 3
    assert Link.read(paths) == link
    assert link.key not in repr(link)


def test_several_hosts_without_private_networks_have_to_be_asked_for():
    check_hosts_are_safe(None, None)
    check_hosts_are_safe(False, "SAC_PRIVATE_NETWORK is 0")
    with pytest.raises(ConfigError, match="no namespaces here. .* accept that with SAC_PRIVATE_N"):
        check_hosts_are_safe(None, "no namespaces here")


def test_a_core_share_whose_kernel_makes_no_network_is_refused_and_leaves_nothing(tmp_path):
    needs_namespaces()
    environ = {
        "PYTHONPATH": str(PROJECT),
        "SAC_EXP_NAME": "closed",
        "SAC_PARAMS": str(PROJECT / "tfagents_system/pendulum_params.py"),
        "SAC_CONFIG": str(PROJECT / "config/pendulum.json"),
    }
    command = [*NO_MORE_NETWORKS, sys.executable, "-m", "tfagents_system.launch.run_share", "core"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 78, done.stderr
    assert "A run of several hosts needs a private network on each of them" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
