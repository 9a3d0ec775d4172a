import errno
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest
from namespaces import NO_MORE_NETWORKS, USERS, needs_namespaces

from tfagents_system.core.process.process_start import launch_prefix
from tfagents_system.launch.local.private_network import (
    network_line,
    why_open,
    with_private_network,
)

PROJECT = pathlib.Path(__file__).parents[3]

REPORT = """
import json, os, pathlib, socket, sys
def answers(family, host):
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind((host, 0))
        server.listen()
        return client.connect_ex(server.getsockname()) == 0
pathlib.Path(sys.argv[1]).touch()
os.write(int(sys.argv[2]), b"still open")
print(json.dumps({
    "pid": os.getpid(),
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
    "outside": socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(("192.0.2.1", 9)),
    "localhost": answers(socket.AF_INET, "localhost"),
    "::1": answers(socket.AF_INET6, "::1"),
}))
"""


def run_python(script: str, *arguments: str, prefix: Sequence[str] = ()) -> str:
    """Returns what `script` prints, with this project's package first on its path."""
    command = [*prefix, sys.executable, "-c", script, *arguments]
    environ = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_ipv6_loopback() -> bool:
    with socket.socket(socket.AF_INET6) as server:
        try:
            server.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize("user", USERS)
def test_command_has_only_localhost_and_everything_else_as_before(tmp_path, user):
    needs_namespaces()
    made = tmp_path / "made inside"
    readable, writable = os.pipe()
    command = with_private_network([sys.executable, "-c", REPORT, str(made), str(writable)])
    process = subprocess.Popen(
        [*USERS[user], *command], cwd=PROJECT, pass_fds=[writable], text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    os.close(writable)
    report = json.loads(process.communicate(timeout=30)[0])
    assert process.returncode == 0
    assert report["pid"] == process.pid  # exec all the way
    assert report["ids"] == [os.getuid(), os.geteuid(), os.getgid(), os.getegid()]
    assert report["outside"] == errno.ENETUNREACH
    assert report["localhost"]
    assert report["::1"] == has_ipv6_loopback()
    with open(readable, "rb") as pipe:
        assert pipe.read() == b"still open"
    assert made.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("user", USERS)
def test_nobody_outside_reaches_a_port_inside(user):
    needs_namespaces()
    serve = ("import socket; s = socket.create_server(('', 0)); "
             "print(s.getsockname()[1], flush=True); input()")  # fmt: skip
    process = subprocess.Popen(
        [*USERS[user], *with_private_network([sys.executable, "-c", serve])],
        cwd=PROJECT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        port = int(process.stdout.readline())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        process.communicate("\n", timeout=10)
    assert process.returncode == 0


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("trap", ["trap '' INT", "trap - INT"])  # in the background, or not
def test_signals_are_ignored_only_if_they_were(user, trap):
    needs_namespaces()
    command = ["grep", "SigIgn", "/proc/self/status"]
    straight, through = (
        subprocess.run(
            ["bash", "-c", f'{trap}; exec "$@"', "bash", *prefix],
            cwd=PROJECT, capture_output=True, text=True, check=True,
        ).stdout
        for prefix in (command, [*USERS[user], *with_private_network(command)])
    )  # fmt: skip
    assert through == straight


def test_0_is_open_without_a_try():
    assert why_open(False, pathlib.Path("missing")) == "SAC_PRIVATE_NETWORK is 0"


@pytest.mark.parametrize("wanted", [None, True])
def test_private_where_it_is_possible_also_after_numpy_has_started_threads(wanted):
    needs_namespaces()
    assert why_open(wanted, PROJECT) is None


WHY = """
import pathlib, sys
from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.local.private_network import why_open
try:
    print(why_open({"auto": None, "1": True}[sys.argv[1]], pathlib.Path(sys.argv[2])))
except ConfigError as error:
    print(f"ConfigError: {error}")
"""


def test_what_keeps_it_from_working_is_named():
    needs_namespaces()  # to make a place where there can be none
    reason = ("unshare: No space left on device; "
              "user.max_user_namespaces or user.max_net_namespaces is reached")  # fmt: skip
    out = run_python(WHY, "auto", "missing", prefix=NO_MORE_NETWORKS)
    assert out == f"a private one is not possible here: {reason}\n"
    out = run_python(WHY, "1", "missing", prefix=NO_MORE_NETWORKS)
    assert out == (
        "ConfigError: SAC_PRIVATE_NETWORK is 1, but a private network is not possible here "
        f"({reason}). Have user and network namespaces allowed on this machine, or set auto or 0 "
        "to train where others can connect.\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write to folders of others")
def test_root_that_would_lose_its_rights_to_the_experiment_has_none(tmp_path):
    needs_namespaces()
    exp_dir = tmp_path / "of another user"
    exp_dir.mkdir(mode=0o755)
    shutil.chown(exp_dir, user=4711)
    assert why_open(True, exp_dir) is None
    out = run_python(WHY, "auto", str(exp_dir), prefix=USERS["without CAP_SYS_ADMIN"])
    assert out == (
        "a private one is not possible here: "
        f"in a user namespace {exp_dir} is not accessible\n"
    )  # fmt: skip


def test_lines_name_who_can_connect_and_what_to_change():
    assert network_line(None) == (
        "Network: private, the programs reach only each other "
        "(SAC_PRIVATE_NETWORK=0 if an environment needs more)."
    )
    assert network_line("SAC_PRIVATE_NETWORK is 0") == (
        "Network: open, whoever reaches this machine can connect to the replay server "
        "(SAC_PRIVATE_NETWORK is 0)."
    )


def test_another_package_of_our_name_in_the_current_folder_is_not_run(tmp_path, monkeypatch):
    needs_namespaces()
    (tmp_path / "tfagents_system").mkdir()
    (tmp_path / "tfagents_system/__init__.py").write_text("raise ImportError('not this one')\n")
    monkeypatch.chdir(tmp_path)
    command = [*launch_prefix(), *with_private_network(["pwd", "-P"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == (f"{tmp_path.resolve()}\n", "", 0)
