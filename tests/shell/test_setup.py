"""setup.sh with stub programs on PATH; the project's own .venv is only read."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
from shell.sandbox import slowdown

PROJECT = pathlib.Path(__file__).parents[2]
CORE = PROJECT / "tfagents_system/core"
LOCK_FILES = sorted(path.name for path in (PROJECT / "locks").glob("*.lock"))
# What setup.sh asks about an active environment, and what that may import.
PACKAGE_CHECK = (
    "tfagents_system/__init__.py",
    "tfagents_system/launch/__init__.py",
    "tfagents_system/launch/checks/__init__.py",
    "tfagents_system/launch/checks/packages.py",
    *sorted(str(path.relative_to(PROJECT)) for path in CORE.rglob("*.py")),
)
BUILD = "tfagents_system/kernels/build.py"
TOOLS = (
    "awk basename bash cat chmod cksum cp df dirname env find flock grep head mkdir mktemp mv "
    "paste rm sleep sort tail touch"
)

# Stands for python3.11: makes virtual environments whose python is itself, and notes what pip does.
PYTHON = """#!/usr/bin/env bash
here="$(dirname "$0")" all="$*"
case "$all" in
  *'print("%d.%d"'*) echo "${STUB_VERSION:-3.11}" ;;
  *"-m venv"*) echo venv >>"$TAPE"
    mkdir -p .venv/bin .venv/lib/python3.11/site-packages; cp "$0" .venv/bin/python ;;
  *"-m pip config"*) echo "constraint ${*: -1}" >>"$TAPE" ;;
  *"-m pip"*) echo "pip${all#*--no-deps}" >>"$TAPE"; sleep "${STUB_PIP_SECS:-0}"
    [[ -z ${STUB_PIP_FAILS:-} ]] || { echo "No route to the packages" >&2; exit 1; } ;;
  *"import ensurepip"*) [[ -z ${STUB_NO_ENSUREPIP:-} ]] ;;
  *"import pip"*) ;;
  *"-m tfagents_system.kernels.build"*) echo "Compiled ops: ${STUB_OPS:-a.so is up to date.}"
    [[ -z ${STUB_BUILD_FAILS:-} ]] ;;
  *) echo "unexpected in $here: $*" >>"$TAPE"; exit 1 ;;
esac
"""
OURS = "pip --no-build-isolation -e ."
MADE_BY_UV = "uv --python >=3.10,<3.12 .venv"

# Stands for python3 of a system that has no other: has pip, which installs uv, or nothing.
OTHER_PYTHON = """#!/usr/bin/env bash
case "$*" in
  *'print("%d.%d"'*) echo 3.13 ;;
  *"-m pip --version"*) [[ -z ${STUB_NO_PIP:-} ]] ;;
  *"pip-25.whl/pip install"* | *"-m pip install"*) echo "python3 $*" >>"$TAPE"
    mkdir -p .venv/uv/bin; cp "$STUBS/uv" .venv/uv/bin ;;
  *) exit 1 ;;
esac
"""
# Stands for uv: makes the same as PYTHON does, or cannot download a Python.
UV = """#!/usr/bin/env bash
echo "uv ${*: -3}" >>"$TAPE"
mkdir -p .venv/bin .venv/lib/python3.11/site-packages
[[ -z ${STUB_UV_FAILS:-} ]] || { echo "error: Failed to download cpython-3.11" >&2; exit 2; }
cp "$STUBS/python" .venv/bin/python
"""


class Sandbox:
    """A copy of the scripts in a folder of its own, and a PATH with nothing but stubs and tools."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        for name in ("setup.sh", *PACKAGE_CHECK, *(f"locks/{name}" for name in LOCK_FILES)):
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, self.project / name)
        (self.project / BUILD).parent.mkdir()
        (self.project / BUILD).write_text('print("Compiled ops: a.so is up to date.")')
        self.bin = tmp_path / "bin"
        self.bin.mkdir()
        for tool in TOOLS.split():
            if path := shutil.which(tool):
                (self.bin / tool).symlink_to(path)
        self._tape = tmp_path / "tape"
        self.stubs = tmp_path / "stubs"  # not on PATH
        self.stubs.mkdir()
        self.env = {
            "PATH": str(self.bin),
            "HOME": str(tmp_path),
            "TAPE": str(self._tape),
            "STUBS": str(self.stubs),
        }
        self.stub("uname", "echo Linux")
        self.stub("id", "echo 1000")

    def stub(self, name: str, body: str, folder: pathlib.Path | None = None) -> None:
        path = (folder or self.bin) / name
        path.unlink(missing_ok=True)  # never write through a link to the system's own
        path.write_text(body if body.startswith("#!") else f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

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
            stdout, stderr = process.communicate(timeout=60)
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

    @property
    def fresh(self) -> list[str]:
        """What the stubs do where there is nothing yet."""
        return ["venv", *self.installed("base")]

    def installed(self, *names: str) -> list[str]:
        """What the stubs do to install these lock files."""
        locks = "".join(f" -r locks/{name}.lock" for name in names)
        return [f"constraint file://{self.project}/locks/base.lock", f"pip{locks}", OURS]


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
    assert (first[0], first[1], ready.tape()) == (0, f"{ready.venv_bin}\n", ready.fresh)
    assert first[2].splitlines()[0] == "setup: making .venv with python3.11 3.11"

    started = time.monotonic()
    second = ready.run()
    assert time.monotonic() - started < 1 * slowdown()
    assert (second, ready.tape()) == ((0, f"{ready.venv_bin}\n", ""), [])


def test_test_packages_are_added_once_and_serve_runs_too(ready):
    ready.run()
    ready.tape()
    assert ready.run("--test")[0] == 0
    assert ready.tape() == ready.installed("base", "test")
    assert ready.run()[2] == ready.run("--test")[2] == ""
    assert ready.tape() == []


def test_changed_lock_installs_again_into_the_same_venv(ready):
    ready.run()
    ready.tape()
    with open(ready.project / "locks/base.lock", "a") as lock:
        lock.write("# a newer one\n")
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")


def test_interrupted_venv_is_made_anew(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/.unfinished").touch()
    (ready.project / ".venv/half_written").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.fresh
    assert not (ready.project / ".venv/half_written").exists()
    assert not (ready.project / ".venv/.unfinished").exists()


def test_venv_without_mark_is_kept_and_completed(ready):
    ready.run()
    ready.tape()
    for mark in (ready.project / ".venv").glob(".lock-*"):
        mark.unlink()
    (ready.project / ".venv/users_own_package").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")
    assert (ready.project / ".venv/users_own_package").exists()


def test_failing_pip_shows_its_last_lines_and_is_tried_again(ready):
    status, stdout, stderr = ready.run(STUB_PIP_FAILS="1")
    assert (status, stdout) == (78, "")
    assert "No route to the packages" in stderr
    assert "pip failed" in stderr and "free disk space" in stderr
    ready.tape()
    assert ready.run()[0] == 0
    assert ready.tape() == ready.installed("base")


@pytest.mark.skipif(not shutil.which("flock"), reason="flock is not on this system")
def test_two_setups_at_once_install_once(ready):
    first = ready.start(STUB_PIP_SECS="0.5")
    deadline = time.monotonic() + 10
    while not (ready.project / ".venv/.unfinished").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = ready.run()
    stdout, _ = first.communicate(timeout=60)
    assert second == (
        0,
        f"{ready.venv_bin}\n",
        "setup: waiting for another setup of this folder to end\n",
    )
    assert (stdout, ready.tape()) == (second[1], ready.fresh)


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


@pytest.fixture
def newer(sandbox):
    """With no Python but one that is too new, and a uv that is not on PATH."""
    sandbox.stub("supervise", "exit 0")
    sandbox.stub("python3", OTHER_PYTHON)
    sandbox.stub("python", PYTHON, sandbox.stubs)
    sandbox.stub("uv", UV, sandbox.stubs)
    return sandbox


def test_uv_on_path_makes_venv_where_no_python_fits(newer):
    shutil.copy(newer.stubs / "uv", newer.bin)
    status, stdout, stderr = newer.run()
    assert (status, stdout) == (0, f"{newer.venv_bin}\n")
    assert newer.tape() == [MADE_BY_UV, *newer.installed("base")]
    assert "making .venv with uv" in stderr
    assert newer.run() == (0, stdout, "")


def test_uv_is_installed_into_the_folder_where_it_is_not_on_path(newer):
    assert newer.run()[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith("python3 -I -m pip install ") and " --target .venv/uv uv==" in pip
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_uv_is_installed_by_an_unpacked_pip_where_python_has_none(newer):
    newer.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch python3-pip-whl_25_all.deb')
    newer.stub(
        "dpkg",
        "mkdir -p usr/share/python-wheels; echo >usr/share/python-wheels/pip-25.whl",
    )
    newer.stub(
        "find", f'exec {shutil.which("find")} "${{@/#\\/usr\\/*/.venv}}"'
    )  # not the system's
    assert newer.run(STUB_NO_PIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    unpacking, pip, *others = newer.tape()
    assert unpacking == "apt-get download -qq python3-pip-whl"
    wheel = ".venv/python3-pip-whl/usr/share/python-wheels/pip-25.whl"
    assert pip.startswith(f"python3 -I {wheel}/pip install ")
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_uv_without_its_download_leaves_no_venv_and_gives_advice(newer):
    shutil.copy(newer.stubs / "uv", newer.bin)
    status, stdout, stderr = newer.run(STUB_UV_FAILS="1")
    assert (status, stdout) == (78, "")
    assert "error: Failed to download cpython-3.11" in stderr
    assert "needs Python 3.10 or 3.11" in stderr and "apt-get install python3.11" in stderr
    assert [path.name for path in (newer.project / ".venv").iterdir()] == [".setup-lock"]
    newer.tape()
    assert newer.run()[0] == 0  # the download can be reached now
    assert newer.tape() == [MADE_BY_UV, *newer.installed("base")]


def test_compiled_ops_are_built_and_said_once(ready):
    nothing = "not built, because there is no C++ compiler (c++)."
    assert f"setup: Compiled ops: {nothing}\n" in ready.run(STUB_OPS=nothing)[2]
    assert ready.run(STUB_OPS=nothing)[2] == ""
    assert ready.run(STUB_OPS="b.so was built.")[2] == "setup: Compiled ops: b.so was built.\n"


def test_a_failing_build_of_the_compiled_ops_is_said_and_fails_nothing(ready):
    ready.run()
    assert ready.run(STUB_OPS="the build failed: x", STUB_BUILD_FAILS="1") == (
        0,
        f"{ready.venv_bin}\n",
        "setup: Compiled ops: the build failed: x\n",
    )


def test_python_in_the_pyenv_folder_is_found(ready):
    (ready.bin / "python3.11").unlink()
    ready.stub("python3", "echo 3.13")
    folder = pathlib.Path(ready.env["HOME"], ".pyenv/versions/3.10.13/bin")
    folder.mkdir(parents=True)
    (folder / "python3").write_text(PYTHON)
    (folder / "python3").chmod(0o755)
    status, _, stderr = ready.run(STUB_VERSION="3.10")
    assert (status, ready.tape()) == (0, ready.fresh)
    assert f"making .venv with {folder}/python3 3.10" in stderr


def test_uv_makes_venv_of_a_python_without_ensurepip(newer):
    """As on Debian without python3-venv: nobody needs to be root."""
    newer.stub("python3.11", PYTHON)
    assert newer.run(STUB_NO_ENSUREPIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith("python3 -I -m pip install ") and " --target .venv/uv uv==" in pip
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_python_without_ensurepip_is_named_where_uv_cannot_be_had(ready):
    status, _, stderr = ready.run(STUB_NO_ENSUREPIP="1")
    assert status == 78
    assert "python3.11 cannot make a virtual environment" in stderr
    assert "apt-get install python3.11 python3.11-venv" in stderr


def test_uv_is_installed_by_the_pip_that_a_python_brings_for_virtual_environments(newer):
    bundled = newer.stubs / "ensurepip"
    (bundled / "_bundled").mkdir(parents=True)
    (bundled / "_bundled/pip-25.whl").touch()
    newer.stub(
        "python3",
        OTHER_PYTHON.replace(
            "  *) exit 1",
            f"""  *"import ensurepip"*)
    echo {bundled} ;;
  *) exit 1""",
        ),
    )
    assert newer.run(STUB_NO_PIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith(f"python3 -I {bundled}/_bundled/pip-25.whl/pip install ")
    assert others == [MADE_BY_UV, *newer.installed("base")]


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
    assert ready.tape() == [*ready.fresh, "apt-get download -qq daemontools", "dpkg -x"]
    assert ready.run() == (0, expected, "")
    assert ready.tape() == []


def test_a_cluster_gets_stunnel_with_its_library_without_root(ready):
    ready.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch stunnel4.deb libwrap0.deb')
    unpacked = """
    [[ $2 == ./libwrap0.deb ]] && mkdir -p usr/lib/x86_64-linux-gnu &&
      touch usr/lib/x86_64-linux-gnu/libwrap.so.0 && exit
    mkdir -p usr/bin
    printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH $*"\\n' >usr/bin/stunnel4
    chmod 755 usr/bin/stunnel4
    """
    ready.stub("dpkg", unpacked)
    folder = f"{ready.project}/.venv/stunnel4"
    expected = f"{ready.venv_bin}:{folder}/bin\n"
    assert ready.run(SAC_PLACEMENT="ray")[:2] == (0, expected)
    assert ready.tape() == [*ready.fresh, "apt-get download -qq stunnel4 libwrap0"]
    assert ready.run(SAC_PLACEMENT="slurm") == (0, expected, "")
    assert ready.tape() == []
    called = subprocess.run([f"{folder}/bin/stunnel4", "a.conf"], capture_output=True, text=True)
    assert called.stdout == f"{folder}/usr/lib/x86_64-linux-gnu a.conf\n"
    assert ready.run() == (0, f"{ready.venv_bin}\n", "")  # on one host nobody needs it


def test_a_cluster_without_stunnel_and_apt_says_what_to_install(ready):
    status, stdout, stderr = ready.run(SAC_PLACEMENT="slurm")
    assert (status, stdout) == (78, "")
    assert "stunnel, which encrypts what goes from host to host, is not on PATH" in stderr
    assert "apt-get install stunnel4" in stderr


def test_root_installs_daemontools_with_apt(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("id", "echo 0")
    ready.stub(
        "apt-get",
        'echo "apt-get $1" >>"$TAPE"; [[ $1 != install ]] || cp "$0" "$(dirname "$0")/supervise"',
    )
    assert ready.run()[:2] == (0, f"{ready.venv_bin}\n")
    assert ready.tape() == [*ready.fresh, "apt-get update", "apt-get install"]


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
    lock = ready.project / "locks/base.lock"
    text = lock.read_text()
    assert "\ntensorflow==2.15.1\n" in text
    lock.write_text(text.replace("\ntensorflow==2.15.1\n", "\ntensorflow==2.15.0\n"))
    status, stdout, stderr = ready.run(VIRTUAL_ENV=sys.prefix)
    assert (status, stdout, ready.tape()) == (0, f"{ready.venv_bin}\n", ready.fresh)
    assert "not using the active environment" in stderr
    assert "tensorflow 2.15.1 is not the locked 2.15.0" in stderr
    assert ready.run(VIRTUAL_ENV=sys.prefix) == (0, stdout, "")


def test_unknown_argument_shows_usage(sandbox):
    status, _, stderr = sandbox.run("--tests")
    assert status == 78
    assert "unknown argument: --tests. Usage: setup.sh [--test] [--with EXTRA,...]" in stderr


@pytest.mark.parametrize(
    "arguments", [["--with", "mujoco,dm-control"], ["--with=mujoco,dm_control"]]
)
def test_extras_are_installed_and_kept(ready, arguments):
    assert ready.run(*arguments)[0] == 0
    assert ready.tape() == ["venv", *ready.installed("base", "dm_control", "mujoco")]
    assert ready.run() == ready.run("--with", "mujoco") == (0, f"{ready.venv_bin}\n", "")
    with open(ready.project / "locks/mujoco.lock", "a") as lock:
        lock.write("# a newer one\n")
    assert ready.run("--test")[0] == 0
    assert ready.tape() == ready.installed("base", "dm_control", "mujoco", "test")


def test_extras_are_installed_again_if_venv_is_made_anew(ready):
    ready.run("--with", "optuna")
    ready.tape()
    (ready.project / ".venv/.unfinished").touch()
    assert ready.run()[0] == 0
    assert ready.tape() == ["venv", *ready.installed("base", "optuna")]


def test_an_extra_that_could_not_be_installed_is_forgotten(ready):
    ready.run()
    assert ready.run("--with", "optuna", STUB_PIP_FAILS="1")[0] == 78
    assert ready.run() == (0, f"{ready.venv_bin}\n", "")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mujuco", " Did you mean mujoco?"), ("gym", ""), ("base", ""), ("../base", "")],
)
def test_unknown_extra_is_refused_with_the_list(ready, name, hint):
    status, stdout, stderr = ready.run("--with", name)
    assert (status, stdout, ready.tape()) == (78, "", [])
    everything = "box2d dm_control docs gymnasium mlflow mujoco onnx optuna ray wandb"
    assert f"there is no extra '{name}'.{hint} There are: {everything}\n" in stderr


def test_extras_are_those_of_pyproject():
    text = (PROJECT / "pyproject.toml").read_text()
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    names = [line.partition(" = ")[0] for line in section.splitlines() if " = " in line]
    assert sorted(f"{name}.lock" for name in [*names, "base"]) == LOCK_FILES


def test_lock_files_are_plain_pins():
    for name in LOCK_FILES:
        for line in (PROJECT / "locks" / name).read_text().splitlines():
            if not line.startswith("#"):
                requirement = line.partition(" ; ")[0]
                assert requirement.count("==") == 1, line
                assert not set(requirement) & set(" :@/"), line


def test_scripts_are_executable():
    for name in ("setup.sh", "run_tests.sh", "locks/make.sh"):
        assert os.access(PROJECT / name, os.X_OK)
