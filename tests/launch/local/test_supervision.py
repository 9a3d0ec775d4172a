import os
import subprocess

import pytest

from tfagents_system.launch.local.supervision import is_alive, is_supervised


@pytest.fixture
def service(tmp_path):
    (tmp_path / "supervise").mkdir()
    os.mkfifo(tmp_path / "supervise" / "ok")
    return tmp_path


def test_a_service_is_supervised_while_its_pipe_is_read(service, tmp_path):
    assert not is_supervised(tmp_path / "missing")
    assert not is_supervised(service)
    reader = os.open(service / "supervise" / "ok", os.O_RDONLY | os.O_NONBLOCK)
    assert is_supervised(service)
    os.close(reader)
    assert not is_supervised(service)


def test_a_service_is_alive_while_a_process_holds_its_lock(service):
    assert not is_alive(service)
    holder = subprocess.Popen(
        ["setlock", "-n", service / "lock", "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "held\n"
    assert is_alive(service)
    holder.communicate("\n")
    assert not is_alive(service)
