"""Who can connect to a run: by default its own programs, and nobody else."""

import os
import pathlib
import socket
import subprocess

import psutil
import pytest
from namespaces import USERS, needs_namespaces
from system.tiny_run import STEPS_PER_ITER, TinyRun

pytestmark = pytest.mark.system

LISTEN = "0A"  # the state column of /proc/net/tcp
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def run(tmp_path):
    run = TinyRun(tmp_path, more_params="\n    num_iter = 10\n")
    run.set_pace(0.1)
    yield run
    run.end()


def addresses_of_this_machine() -> set[str]:
    """IPv4 and IPv6 addresses of all interfaces; link-local ones with their interface."""
    found = {
        address.address
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }
    assert "127.0.0.1" in found
    return found


def answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True


def answers_another_user(port: int) -> bool:
    """Tries as the user nobody, if this user may become another."""
    connect = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"]
    return subprocess.run(connect, cwd="/", capture_output=True, **NOBODY).returncode == 0


def listening_ports(pid: int | str = "self") -> set[int]:
    """TCP ports on which somebody listens in the network of a process."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTEN}


@pytest.mark.parametrize("user", USERS)
def test_nobody_outside_reaches_a_run(run, user):
    needs_namespaces()
    process = run.start(prefix=USERS[user])
    run.await_train_step(STEPS_PER_ITER)
    port, server = run.port(), run.pid("sac_replay_buffer.py")
    assert port in listening_ports(server)
    assert port not in listening_ports()
    assert {a for a in addresses_of_this_machine() | {"::1"} if answers(a, port)} == set()
    assert not answers_another_user(port)
    if NOBODY:
        join = ["nsenter", f"--net=/proc/{server}/ns/net", "true"]
        assert subprocess.run(join, cwd="/", capture_output=True, **NOBODY).returncode != 0
    pids = [server, run.pid("sac_train.py"), run.pid("sac_collect.py"), process.pid]
    (network,) = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids}
    assert network != os.readlink("/proc/self/ns/net")
    run.set_pace(0)
    assert run.await_end(process, timeout_secs=60) == 0
    assert "Network: private, " in run.output
    assert run.alive() == {}


def test_a_run_in_the_open_answers_everybody(run):
    process = run.start(SAC_PRIVATE_NETWORK="0")
    run.await_train_step(STEPS_PER_ITER)
    port = run.port()
    assert port in listening_ports()
    assert answers("127.0.0.1", port)
    assert answers_another_user(port)
    process.terminate()
    assert run.await_end(process, timeout_secs=60) == 143
    assert "Network: open, " in run.output and "(SAC_PRIVATE_NETWORK is 0)" in run.output
