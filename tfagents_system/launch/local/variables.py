"""Reads variables files: shell scripts that set SAC_* variables."""

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping

from tfagents_system.core.errors import ConfigError

_READER = pathlib.Path(__file__).with_name("variables.sh")
_SCRIPT = """
die() { printf '%s\\n' "$*" >&2; exit 78; }
set -euo pipefail
source "$1"
read_variables "$2"
printf '\\0'
exec env --null
"""
TIMEOUT_SECS = 60.0


def read_variables(path: pathlib.Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` with the variables that the file `path` sets; the file may read `environ`.

    Raises:
      ConfigError: If there is no such file, or it is not a shell script that only sets variables.
    """
    if not path.is_file():
        near = sorted(p.name for p in path.absolute().parent.glob("*variables*.sh"))
        hint = f" In its folder there are: {' '.join(near)}." if near else ""
        raise ConfigError(f"no such variables file: {path}.{hint}")
    command = ["bash", "-c", _SCRIPT, "bash", str(_READER), str(path.absolute())]
    # Files, not pipes: background processes of the variables file would keep a pipe open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                timeout=TIMEOUT_SECS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{path}: still running after {TIMEOUT_SECS:g} s.") from None
        output.seek(0)
        errors.seek(0)
        printed, complaint = output.read(), errors.read()
    if done.returncode != 0:
        raise ConfigError(os.fsdecode(complaint).strip())
    # The file's own output comes before the variables; bash's own variables are not among them.
    variables = printed.split(b"\0")[1:]
    entries = (entry.partition(b"=") for entry in variables if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
