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
import threading
import time

import psutil
import pytest
from namespaces import NO_MORE_NETWORKS, needs_namespaces

from benchmarks.network import Host, network
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until
from tfagents_system.launch.link.hosts import Link, check_hosts_are_safe, listen
from tfagents_system.launch.link.reachability import is_stalled_row

PROJECT = pathlib.Path(__file__).parents[3]
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
        module = "tfagents_system.launch.link.relay"
        relay = self.start(host, "-m", module, (paths or self.paths).root, folder)
        wait_until((folder / "replay").exists, 60, "the relay's socket")
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
    wait_until(lambda: ask(replay) == "core 1", 60, "an answer")
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
    wait_until(lambda: ask(right) == "core 1", 60, "an answer with the right key")
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
    wait_until(lambda: ask(replay) == "core 1", 60, "an answer")
    old = Link.read(lab.paths)
    assert old is not None

    lab.core(second, 2, "core 2")
    wait_until(lambda: ask(replay) == "core 2", 60, "an answer of the new core")
    new = Link.read(lab.paths)
    assert new is not None and new.key != old.key
    right, _ = lab.relay(first, "with_new_key")
    wait_until(lambda: ask(right) == "core 2", 60, "an answer with the new key")
    replayed = ExperimentPaths(lab.folder("replayed"))
    dataclasses.replace(new, key=old.key).publish(replayed)
    assert ask(lab.relay(first, "with_old_key", replayed)[0]) == ""

    (stunnel,) = (c for c in psutil.Process(relay.pid).children() if "stunnel" in c.name())
    stunnel.send_signal(signal.SIGKILL)
    stunnel.wait(5)
    wait_until(lambda: ask(replay) == "core 2", 60, "an answer after stunnel was killed")
    assert relay.poll() is None


class Client:
    """Asks again and again through one connection, and connects anew when that is closed."""

    def __init__(self, path: pathlib.Path):
        self._path, self._stop = path, threading.Event()
        self.answered_at = 0.0
        self.num_connections = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.answered_at, 60, "an answer")
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(0.2)
                connection.connect(str(self._path))
                self.num_connections += 1
                while not self._stop.is_set():
                    connection.sendall(b"?")
                    with contextlib.suppress(TimeoutError):
                        if not connection.recv(100):
                            break
                        self.answered_at = time.monotonic()
                    self._stop.wait(0.05)
            self._stop.wait(0.1)


CUT_SECS = 14.0  # TCP sends again after 12.6 s, and then only after 25.4 s


@pytest.mark.system
@pytest.mark.parametrize("direction", ["to the core", "from the core"])
def test_soon_after_a_cut_in_one_direction_all_goes_on(lab, direction):
    core, workers, _ = lab.hosts
    lab.core(core, 1, "core 1")
    replay, _ = lab.relay(workers, "workers")
    ends = (workers, core) if direction == "to the core" else (core, workers)
    with Client(replay) as client:
        ends[0].cut(ends[1])
        wait_until(lambda: time.monotonic() - client.answered_at > CUT_SECS, 60, "a long cut")
        ends[0].mend(ends[1])
        mended_at = time.monotonic()
        wait_until(lambda: client.answered_at > mended_at, 60, "an answer after the cut")
        assert client.answered_at - mended_at < 8
        # It is not closed again and again while all is well.
        num_connections = client.num_connections
        wait_until(lambda: time.monotonic() - mended_at > 16, 60, "ten more looks")
        assert client.num_connections == num_connections


def test_an_address_is_looked_for_until_one_answers(lab):
    core, workers, _ = lab.hosts
    workers.cut(core)
    lab.core(core, 1, "core 1")
    folder = lab.folder("workers")
    before = workers.traffic()[1]
    lab.start(workers, "-m", "tfagents_system.launch.link.relay", lab.paths.root, folder)
    wait_until(lambda: workers.traffic()[1] - before > 5 * 66, 60, "some packets for nobody")
    assert ask(folder / "replay") == ""
    workers.mend(core)
    wait_until(lambda: ask(folder / "replay") == "core 1", 60, "an answer after the cut")


ROW = "1: 0100007F:C350 0200000A:1F90 {} 00000000:00000000 01:00000014 {} 0 {} {} 2 0 20 4 30 10 -1"


@pytest.mark.parametrize(
    ("state", "sent_again", "asked", "inode", "stalled"),
    [
        ("01", "00000000", 0, 7, False),
        ("01", "00000001", 0, 7, True),
        ("01", "0000000A", 0, 7, True),
        ("01", "00000000", 1, 7, False),  # asked a moment ago
        ("01", "00000000", 2, 7, True),
        ("01", "00000001", 0, 8, False),  # another program's
        ("02", "00000001", 0, 7, False),  # is only being made
    ],
)
def test_a_connection_has_stalled_when_the_other_kernel_does_not_answer(
    state, sent_again, asked, inode, stalled
):
    row = ROW.format(state, sent_again, asked, inode)
    assert is_stalled_row(row.split(), {"7"}) == stalled


def test_what_is_on_its_way_to_a_host_that_is_gone_is_dropped_within_a_minute():
    with listen() as server:
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        with socket.create_connection(("127.0.0.1", server.getsockname()[1])):
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


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
    command = [
        *NO_MORE_NETWORKS,
        sys.executable,
        "-m",
        "tfagents_system.launch.local.run_share",
        "core",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 78, done.stderr
    assert "A run of several hosts needs a private network on each of them" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
