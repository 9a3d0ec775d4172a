"""Commands in shells and terminals of every kind."""

import gc
import os
import pathlib
import re
import subprocess
import sys

from run_files import write_run

PROJECT = pathlib.Path(__file__).parents[3]


def sac(*arguments, cwd=None, **variables):
    """Returns exit code, output and error output of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "tfagents_system", *map(str, arguments)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(PROJECT)} | variables,
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


def test_user_code_has_the_garbage_collector_that_python_gives_it(tmp_path):
    (tmp_path / "probe.py").write_text(
        "import gc\n\nimport gymnasium\n\n\nclass Probe(gymnasium.Wrapper):\n"
        "    def step(self, action):\n"
        "        print('probe:', gc.isenabled(), gc.get_threshold(), flush=True)\n"
        "        return super().step(action)\n"
    )
    arguments = "--env", "gymnasium:Pendulum-v1", "--wrap", "probe:Probe", "--nopredict"
    code, out, err = sac("check", *arguments, cwd=tmp_path)
    assert code == 0, err
    assert set(re.findall("^probe: .*$", out, re.M)) == {f"probe: True {gc.get_threshold()}"}


def test_every_program_and_tool_collects_garbage():
    starts = ("run_tool(", "run_program(", "end_imports()")
    mains = {
        path.name: text.partition('if __name__ == "__main__":')[2]
        for path in (PROJECT / "tfagents_system").rglob("*.py")
        if path.name != "__main__.py"  # it calls run_tool for each command
        and 'if __name__ == "__main__":' in (text := path.read_text())
    }
    assert {"guardian.py", "sac_train.py"} <= set(mains)
    without = [name for name, main in mains.items() if not any(s in main for s in starts)]
    assert without == []


def test_a_script_that_imports_the_package_keeps_its_garbage_collector():
    script = "import tfagents_system, gc; print(gc.isenabled(), gc.get_freeze_count())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True 0\n"
