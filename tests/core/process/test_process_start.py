"""Commands in shells and terminals of every kind."""

import os
import pathlib
import subprocess
import sys

from run_files import write_run

PROJECT = pathlib.Path(__file__).parents[3]


def sac(*arguments, **variables):
    """Returns exit code, output and error output of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "tfagents_system", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(PROJECT)} | variables,
        capture_output=True, text=True, encoding="ascii", timeout=240,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_commands_work_where_warnings_are_errors():
    arguments = "--env", "gym:Pendulum-v1", "--num_episodes", "1", "--nopredict"  # with TF-Agents
    code, out, err = sac("check", *arguments, PYTHONWARNINGS="error")
    assert code == 0 and "observation" in out, err


def test_a_terminal_without_some_characters_shows_them_escaped(tmp_path):
    write_run(tmp_path / "größe", [1])
    code, out, err = sac("list", tmp_path, PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:2] == [r"gr\xf6\xdfe", "stopped"]
