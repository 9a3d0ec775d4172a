"""setup.sh with stub programs on PATH; the project's own .venv is only read."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

PROJECT = pathlib.Path(__file__).parents[2]
LOCK_FILES = ("requirements.lock", "requirements-test.lock")
TOOLS = (
    "awk basename bash cat chmod cksum cp df dirname env find flock mkdir mktemp mv rm sleep tail "
    "touch"
)

# Stands for python3.11: makes virtual environments whose python is itself, and notes what pip does.
PYTHON = """#!/usr/bin/env bash
here="$(dirname "$0")"
case "$*" in
  *'print("%d.%d"'*) echo "${STUB_VERSION:-3.11}" ;;
  *"-m venv"*) echo venv >>"$TAPE"; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  *"-m pip"*) echo "pip ${*: -1}" >>"$TAPE"; sleep "${STUB_PIP_SECS:-0}"
    [[ -z ${STUB_PIP_FAILS:-} ]] || { echo "No route to the packages" >&2; exit 1; } ;;
  *"import ensurepip"*) [[ -z ${STUB_NO_ENSUREPIP:-} ]] ;;
  *"import pip"*) ;;
  *) echo "unexpected in $here: $*" >>"$TAPE"; exit 1 ;;
esac
"""
FRESH = ["venv", "pip requirements.lock", "pip ."]


class Sandbox:
    """A copy of the scripts in a folder of its own, and a PATH with nothing but stubs and tools."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        for name in ("setup.sh", *LOCK_FILES):
            shutil.copy(PROJECT / name, self.project)
        self.bin = tmp_path / "bin"
        self.bin.mkdir()
        for tool in TOOLS.split():
            if path := shutil.which(tool):
                (self.bin / tool).symlink_to(path)
        self._tape = tmp_path / "tape"
        self.env = {"PATH": str(self.bin), "HOME": str(tmp_path), "TAPE": str(self._tape)}
        self.stub("uname", "echo Linux")
        self.stub("id", "echo 1000")

    def stub(self, name: str, body: str) -> None:
        text = body if body.startswith("#!") else f"#!/usr/bin/env bash\n{body}\n"
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        command = [str(self.project / "setup.sh"), *args]
        return subprocess.Popen(
            command,
            env={**self.env, **env},
            cwd="/",
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *args: str, **env: str) -> tuple[int, str, str]:
        with self.start(*args, **env) as process:
            stdout, stderr = process.communicate(timeout=30)
        return process.returncode, stdout, stderr

    def tape(self) -> list[str]:
        """What the stubs did since the last call."""
        if not self._tape.exists():
            return []
        lines = self._tape.read_text().splitlines()
        self._tape.unlink()
        return lines

    @property
    def venv_bin(self) -> str:
        return f"{self.project}/.venv/bin"


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


@pytest.fixture
def ready(sandbox):
    """With a usable Python and supervise."""
    sandbox.stub("python3.11", PYTHON)
    sandbox.stub("supervise", "exit 0")
    return sandbox


def test_second_call_is_quick_silent_and_installs_nothing(ready):
    first = ready.run()
    assert (first[0], first[1], ready.tape()) == (0, f"{ready.venv_bin}\n", FRESH)
    assert first[2].splitlines()[0] == "setup: making .venv with python3.11 3.11"

    started = time.monotonic()
    second = ready.run()
    assert time.monotonic() - started < 1
    assert (second, ready.tape()) == ((0, f"{ready.venv_bin}\n", ""), [])


def test_test_packages_are_added_once_and_serve_runs_too(ready):
    ready.run()
    ready.tape()
    assert ready.run("--test")[0] == 0
    assert ready.tape() == ["pip requirements-test.lock", "pip ."]
    assert ready.run()[2] == ready.run("--test")[2] == ""
    assert ready.tape() == []


def test_changed_lock_installs_again_into_the_same_venv(ready):
    ready.run()
    ready.tape()
    with open(ready.project / "requirements.lock", "a") as lock:
        lock.write("# a newer one\n")
    assert ready.run()[0] == 0
    assert ready.tape() == ["pip requirements.lock", "pip ."]


def test_interrupted_venv_is_made_anew(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/.unfinished").touch()
    (ready.project / ".venv/half_written").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == FRESH
    assert not (ready.project / ".venv/half_written").exists()
    assert not (ready.project / ".venv/.unfinished").exists()


def test_venv_without_mark_is_kept_and_completed(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/users_own_package").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == FRESH[1:]
    assert (ready.project / ".venv/users_own_package").exists()


def test_failing_pip_shows_its_last_lines_and_is_tried_again(ready):
    status, stdout, stderr = ready.run(STUB_PIP_FAILS="1")
    assert (status, stdout) == (78, "")
    assert "No route to the packages" in stderr
    assert "pip failed" in stderr and "free disk space" in stderr
    ready.tape()
    assert ready.run()[0] == 0
    assert ready.tape() == FRESH[1:]


@pytest.mark.skipif(not shutil.which("flock"), reason="flock is not on this system")
def test_two_setups_at_once_install_once(ready):
    first = ready.start(STUB_PIP_SECS="0.5")
    deadline = time.monotonic() + 10
    while not (ready.project / ".venv/.unfinished").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = ready.run()
    stdout, _ = first.communicate(timeout=30)
    assert second == (
        0,
        f"{ready.venv_bin}\n",
        "setup: waiting for another setup of this folder to end\n",
    )
    assert (stdout, ready.tape()) == (second[1], FRESH)


def test_only_a_wrong_python_names_it_and_what_to_install(sandbox):
    sandbox.stub("supervise", "exit 0")
    sandbox.stub("python3", "echo 3.13")
    status, stdout, stderr = sandbox.run()
    assert (status, stdout) == (78, "")
    assert "needs Python 3.10 or 3.11" in stderr
    assert "python3 is 3.13" in stderr
    assert "apt-get install python3.11" in stderr


def test_no_python_says_so(sandbox):
    status, _, stderr = sandbox.run()
    assert status == 78
    assert "there is no Python on PATH" in stderr


def test_python_in_the_pyenv_folder_is_found(ready):
    (ready.bin / "python3.11").unlink()
    ready.stub("python3", "echo 3.13")
    folder = pathlib.Path(ready.env["HOME"], ".pyenv/versions/3.10.13/bin")
    folder.mkdir(parents=True)
    (folder / "python3").write_text(PYTHON)
    (folder / "python3").chmod(0o755)
    status, _, stderr = ready.run(STUB_VERSION="3.10")
    assert (status, ready.tape()) == (0, FRESH)
    assert f"making .venv with {folder}/python3 3.10" in stderr


def test_python_without_ensurepip_names_the_package(ready):
    status, _, stderr = ready.run(STUB_NO_ENSUREPIP="1")
    assert status == 78
    assert "apt-get install python3.11-venv" in stderr


def test_no_supervise_and_no_apt_says_what_to_install(ready):
    (ready.bin / "supervise").unlink()
    status, stdout, stderr = ready.run()
    assert (status, stdout) == (78, "")
    assert "supervise (of daemontools) is not on PATH" in stderr
    assert "apt-get install daemontools" in stderr


def test_supervise_is_unpacked_without_root(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch daemontools_0.76_amd64.deb')
    ready.stub(
        "dpkg",
        'echo "dpkg $1" >>"$TAPE"; mkdir -p usr/bin; cp "$(command -v id)" usr/bin/supervise',
    )
    expected = f"{ready.venv_bin}:{ready.project}/.venv/daemontools/usr/bin\n"
    status, stdout, _ = ready.run()
    assert (status, stdout) == (0, expected)
    assert ready.tape() == [*FRESH, "apt-get download -qq daemontools", "dpkg -x"]
    assert ready.run() == (0, expected, "")
    assert ready.tape() == []


def test_root_installs_daemontools_with_apt(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("id", "echo 0")
    ready.stub(
        "apt-get",
        'echo "apt-get $1" >>"$TAPE"; [[ $1 != install ]] || cp "$0" "$(dirname "$0")/supervise"',
    )
    assert ready.run()[:2] == (0, f"{ready.venv_bin}\n")
    assert ready.tape() == [*FRESH, "apt-get update", "apt-get install"]


def test_macos_needs_no_supervise(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("uname", "echo Darwin")
    assert ready.run()[:2] == (0, f"{ready.venv_bin}\n")


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_active_environment_with_the_packages_is_used(sandbox, variable):
    sandbox.stub("supervise", "exit 0")
    status, stdout, stderr = sandbox.run("--test", **{variable: sys.prefix})
    assert (status, stdout, stderr) == (0, f"{sys.prefix}/bin\n", "")
    assert not (sandbox.project / ".venv").exists()


def test_active_environment_with_another_tensorflow_is_left_alone(ready):
    lock = ready.project / "requirements.lock"
    text = lock.read_text()
    assert "\ntensorflow==2.15.1\n" in text
    lock.write_text(text.replace("\ntensorflow==2.15.1\n", "\ntensorflow==2.15.0\n"))
    status, stdout, _ = ready.run(VIRTUAL_ENV=sys.prefix)
    assert (status, stdout, ready.tape()) == (0, f"{ready.venv_bin}\n", FRESH)


def test_unknown_argument_shows_usage(sandbox):
    status, _, stderr = sandbox.run("--tests")
    assert status == 78
    assert "unknown arguments: --tests. Usage: setup.sh [--test]" in stderr


def test_lock_files_are_plain_pins():
    for name in LOCK_FILES:
        for line in (PROJECT / name).read_text().splitlines():
            if not line.startswith(("#", "-r ")):
                requirement = line.partition(" ; ")[0]
                assert requirement.count("==") == 1, line
                assert not set(requirement) & set(" :@/"), line


def test_scripts_are_executable():
    for name in ("setup.sh", "run_tests.sh"):
        assert os.access(PROJECT / name, os.X_OK)
