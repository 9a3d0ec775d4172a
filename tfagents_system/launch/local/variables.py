"""Reads variables files: shell scripts that set SAC_* variables."""

import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import is_experiment

_READER = pathlib.Path(__file__).with_name("variables.sh")
_SCRIPT = """
die() { printf '%s\\n' "$*" >&2; exit 78; }
set -euo pipefail
source "$1"
read_variables "$2"
printf '\\0'
exec env --null
"""
_USUAL = "*variables*.sh"
_OTHER_KINDS = (".py", ".ipynb", ".json", ".yaml", ".yml", ".toml", ".gin", ".md")
TIMEOUT_SECS = 60.0


def read_variables(path: pathlib.Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` with the variables that the file `path` sets; the file may read `environ`.

    Raises:
      ConfigError: If there is no such file, or it is not a shell script that only sets variables.
    """
    _check_is_variables_file(path)
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


def _check_is_variables_file(path: pathlib.Path) -> None:
    """Raises ConfigError if `path` looks like something else that our commands may be given."""
    if path.is_dir():
        if is_experiment(path):
            raise ConfigError(
                f"{path} is an experiment, not a variables file. The command that started it "
                "resumes it."
            )
        raise ConfigError(
            f"{path} is a folder, not a variables file.{_named('In it', path.glob(_USUAL))}"
        )
    if not path.is_file():
        if re.search(r"\w-v\d+$|^\w+:", str(path)):
            raise ConfigError(f"no such variables file: {path}. Did you mean --env {path}?")
        names = (pathlib.Path(file.name) for file in path.absolute().parent.glob(_USUAL))
        raise ConfigError(f"no such variables file: {path}.{_named('In its folder', names)}")
    if path.suffix in _OTHER_KINDS:
        raise ConfigError(
            f"{path} is not a variables file, a shell script that sets SAC_* variables."
            f"{_named('Beside it', path.parent.glob(_USUAL))}"
        )


def _named(where: str, files: Iterable[pathlib.Path]) -> str:
    found = " ".join(map(str, sorted(files)))
    return f" {where} there are: {found}." if found else ""
