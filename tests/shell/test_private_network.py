"""The network namespace in which the programs of a run talk."""

import os
import pathlib
import re
import signal
import socket

import pytest
from namespaces import NO_MORE_NETWORKS, USERS, needs_namespaces
from shell.sandbox import STARTS, TWO

from tfagents_system.core.waiting import wait_until


@pytest.mark.parametrize("user", USERS)
def test_programs_share_a_private_network_and_are_reached_as_ever(sandbox, user):
    needs_namespaces()
    run = sandbox.start(**TWO, prefix=USERS[user])
    sandbox.await_tape(*STARTS)
    seen = [sandbox.seen(name) for name in ("replay", "learner", "worker_0", "worker_1")]
    (network,) = {program["network"] for program in seen}
    assert network != os.readlink("/proc/self/ns/net")
    assert network == os.readlink(f"/proc/{run.pid}/ns/net")
    assert {program["pid"] for program in seen} | {run.pid} <= set(sandbox.alive())
    ignored = re.search(r"SigIgn:\s*(\w+)", pathlib.Path(f"/proc/{run.pid}/status").read_text())
    assert not int(ignored[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGINT - 1)

    os.kill(sandbox.seen("learner")["pid"], signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("learner starts") == 2, 60, "the learner's restart")
    assert sandbox.seen("learner")["network"] == network
    run.terminate()
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 143
    assert sandbox.alive() == {}
    assert "\nNetwork: private, " in out
    files = [path.lstat() for path in sandbox.exp_dir.rglob("*")]
    assert {(file.st_uid, file.st_gid) for file in files} == {(os.geteuid(), os.getegid())}


def test_a_private_network_has_its_own_ports(sandbox):
    needs_namespaces()
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        code, _, err = sandbox.run(
            SAC_REVERB_PORT=str(port), SAC_PRIVATE_NETWORK="1", STUB_LEARNER="finish"
        )
    assert code == 0, err
    assert sandbox.seen("replay")["argv"][2] == f"--port={port}"


def test_open_network_is_that_of_the_machine(sandbox):
    code, out, err = sandbox.run(**TWO, SAC_PRIVATE_NETWORK="0", STUB_LEARNER="finish")
    assert code == 0, err
    assert sandbox.seen("replay")["network"] == os.readlink("/proc/self/ns/net")
    assert out.count("Network: ") == 1
    assert "can connect to the replay server (SAC_PRIVATE_NETWORK is 0)." in out


def test_where_no_network_can_be_made_auto_says_so_and_1_is_refused(sandbox):
    needs_namespaces()  # to make a place where there can be none
    code, out, err = sandbox.run(prefix=NO_MORE_NETWORKS, SAC_PRIVATE_NETWORK="1")
    assert (code, out) == (78, "")
    assert err.startswith("run_script.sh: SAC_PRIVATE_NETWORK is 1, but a private network is not ")
    assert "(unshare: No space left on device; user.max_user_namespaces or " in err
    assert len(err.splitlines()) == 1
    assert not (sandbox.project / "logs").exists()

    code, out, err = sandbox.run(prefix=NO_MORE_NETWORKS, STUB_LEARNER="finish")
    assert code == 0, err
    assert out.count("Network: ") == 1
    assert "Network: open, " in out and "(a private one is not possible here: unshare: " in out
