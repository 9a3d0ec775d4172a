import os
import pathlib
import socket

import pytest
from small_disk import small_disk

from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.local import host_check
from tfagents_system.launch.local.host_check import TOOLS, check_host

CPUS = sorted(os.sched_getaffinity(0))


def test_a_host_that_starts_programs_is_left_as_it_was(tmp_path):
    check_host(tmp_path / "logs" / "not there yet", CPUS)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_executes_nothing_will_do():
    with small_disk(1 << 20, "noexec") as disk:
        check_host(disk.folder, CPUS)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder with links to the tools, which is all that is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in (*TOOLS, "env", "true", "sh"):
        (folder / tool).symlink_to(host_check.shutil.which(tool))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def failing(tool: pathlib.Path, words: str) -> None:
    tool.unlink()
    tool.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    tool.chmod(0o755)


@pytest.mark.parametrize("tool", ["supervise", "taskset", "setpriv"])
def test_a_missing_tool_is_named(tools, tmp_path, tool):
    (tools / tool).unlink()
    with pytest.raises(ConfigError, match=f"^{tool} not found on PATH"):
        check_host(tmp_path, CPUS)


@pytest.mark.parametrize("tool", ["setpriv", "taskset", "setlock", "pgrphack"])
def test_a_tool_that_fails_is_shown_with_its_words(tools, tmp_path, tool):
    failing(tools / tool, "unrecognized option --pdeathsig")
    with pytest.raises(ConfigError, match=r"taskset -c .* fails \(unrecognized option --pdeathsig"):
        check_host(tmp_path, CPUS)


def refuse(*arguments, **options):
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize(
    ("module", "call", "what"),
    [
        (host_check.os, "mkfifo", "a named pipe"),
        (host_check.fcntl, "flock", r"a lock \(flock\)"),
        (pathlib.Path, "symlink_to", "a symbolic link"),
    ],
)
def test_a_disk_without_something_is_refused(tmp_path, monkeypatch, module, call, what):
    monkeypatch.setattr(module, call, refuse)
    with pytest.raises(ConfigError, match=rf"cannot hold {what} \(Operation not supported\)"):
        check_host(tmp_path, CPUS)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def unknown(*arguments, **options):
    raise socket.gaierror(-2, "Name or service not known")


@pytest.mark.parametrize(
    ("look_up", "reason"),
    [
        (unknown, "Name or service not known"),
        (lambda *_: [(2, 1, 6, "", ("10.0.0.7", 1))], "it is 10.0.0.7"),
    ],
)
def test_localhost_must_be_this_machine(tmp_path, monkeypatch, look_up, reason):
    monkeypatch.setattr(host_check.socket, "getaddrinfo", look_up)
    with pytest.raises(ConfigError, match=f"localhost does not lead to this machine .*{reason}"):
        check_host(tmp_path, CPUS)
