"""setup.sh with stub programs on PATH; the project's own .venv is only read."""

import pathlib
import shutil
import subprocess
import sys

from tfagents_system.core.installed import versions

PROJECT = pathlib.Path(__file__).parents[3]
CORE = PROJECT / "tfagents_system/core"
LOCK_FILES = sorted(path.name for path in (PROJECT / "locks").glob("*.lock"))
# What setup.sh asks about an active environment, and what that may import.
PACKAGE_CHECK = (
    "tfagents_system/__init__.py",
    "tfagents_system/launch/__init__.py",
    "tfagents_system/launch/checks/__init__.py",
    "tfagents_system/launch/checks/own_versions.py",
    "tfagents_system/launch/checks/packages.py",
    *sorted(str(path.relative_to(PROJECT)) for path in CORE.rglob("*.py")),
)


BUILD = "tfagents_system/kernels/build.py"
TOOLS = (
    "awk basename bash cat chmod cp df dirname env find flock grep head mkdir mktemp mv "
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
    [[ -z ${STUB_PIP_SAYS:-} ]] || cat "$STUB_PIP_SAYS"
    [[ -z ${STUB_PIP_FAILS:-} ]] || { echo "No route to the packages" >&2; exit 1; } ;;
  *as_uri* | *checks.own_versions*) exec "$PYTHON_OF_TESTS" "$@" ;;
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


def lock_what_is_installed(lock: pathlib.Path) -> None:
    """Gives the pins the versions of this Python's packages, where a developer has others."""
    lines = []
    for line in lock.read_text().splitlines():
        name, equals, rest = line.partition("==")
        if equals and (found := versions(name)):
            line = f"{name}=={found[0]}{rest[len(rest.partition(' ; ')[0]) :]}"
        lines.append(line)
    lock.write_text("\n".join(lines) + "\n")


class Sandbox:
    """A copy of the scripts in a folder of its own, and a PATH with nothing but stubs and tools."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        for name in ("setup.sh", *PACKAGE_CHECK, "locks/constraints.txt",
                     *(f"locks/{name}" for name in LOCK_FILES)):  # fmt: skip
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, self.project / name)
        for name in LOCK_FILES:
            lock_what_is_installed(self.project / "locks" / name)
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
            "PYTHON_OF_TESTS": sys.executable,
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
            start_new_session=True,
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
        return [f"constraint file://{self.project}/locks/constraints.txt", f"pip{locks}", OURS]
