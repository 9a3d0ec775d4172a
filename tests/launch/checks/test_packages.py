import os
import pathlib
import shlex
import subprocess
import sys

import pytest

from tfagents_system.__main__ import main
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.launch.checks import packages
from tfagents_system.launch.checks.packages import LOCKS, check_packages
from tfagents_system.launch.local.run_share import run_share

ROOT = LOCKS.parent
DICT_WRAPPER = """
import os
os.environ.pop("WRAPT_DISABLE_EXTENSIONS", None)
{imports}
import tensorflow as tf
module = tf.Module()
module.parts = {{"observation": tf.constant([3.0])}}  # a _DictWrapper now
assert type(module.parts).__name__ == "_DictWrapper"
print(tf.function(lambda parts: 2 * parts["observation"])(module.parts).numpy())
"""


def pin_of(name: str) -> str:
    lines = (LOCKS / "base.lock").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def message_of(*locks: pathlib.Path) -> tuple[str, list[str]]:
    """What is wrong, and the arguments of the command that mends it."""
    with pytest.raises(ConfigError) as raised:
        check_packages(*locks)
    problem, command = str(raised.value).splitlines()
    prefix, _, command = command.partition(": ")
    assert prefix == "This repairs them"
    *pip, no_deps = (arguments := shlex.split(command))[:5]
    assert (pip, no_deps) == ([sys.executable, "-m", "pip", "install"], "--no-deps")
    return problem, arguments[5:]


def test_what_is_installed_here_passes():
    check_packages()
    check_packages([LOCKS / "base.lock", LOCKS / "test.lock"])


@pytest.mark.parametrize(
    ("name", "version", "needs"),
    [
        ("numpy", "2.4.1", "tensorflow needs <2.0.0,>=1.23.5"),
        ("protobuf", "7.35.0", "tensorflow needs "),
        ("keras", "3.1", "tensorflow needs <2.16,>=2.15.0"),
        ("wrapt", "2.0.0", "tensorflow needs <1.15,>=1.11.0"),
    ],
)
def test_version_that_tensorflow_cannot_work_with_is_named(install, name, version, needs):
    install(name, version)
    problem, pins = message_of()
    assert f"{name} {version}, but {needs}" in problem
    assert pins == [pin_of(name)]


def test_without_lock_files_what_tensorflow_needs_is_held_to_all_the_same(install, tmp_path):
    no_lock = [tmp_path / "none.lock"]
    check_packages(no_lock)
    install("tfagents_system", "1.0", [])  # as installed it asks for numpy itself
    install("numpy", "2.4.1")
    problem, pins = message_of(no_lock)
    assert problem.endswith(": numpy 2.4.1, but tensorflow needs <2.0.0,>=1.23.5.")
    assert pins == ["numpy<2.0.0,>=1.23.5"]


def test_without_lock_files_what_this_project_needs_must_be_there(install, tmp_path):
    no_lock = [tmp_path / "none.lock"]
    needs = ["missing-a>=2", "tensorflow==2.15.*", "missing-b; extra == 'b'", "matplotlib>=99"]
    install("tfagents_system", "1.0", needs)
    with pytest.raises(ConfigError) as raised:
        check_packages(no_lock)
    problem, command = str(raised.value).splitlines()
    assert "but tfagents_system needs >=99; not installed: missing-a." in problem
    wanted = [sys.executable, "-m", "pip", "install", "matplotlib>=99", "missing-a>=2"]
    assert command == f"This repairs them: {shlex.join(wanted)}"


def test_tensorflow_and_what_is_built_for_it_are_exactly_as_locked(install):
    install("tensorflow", "2.15.0")
    problem, pins = message_of()
    assert "tensorflow 2.15.0 is not the locked 2.15.1" in problem
    assert pins == ["tensorflow==2.15.1"]


@pytest.mark.parametrize("name", ["typing-extensions", "pygame"])
def test_what_tf_agents_pins_without_need_may_have_any_version(install, name):
    install(name, "99.0")
    check_packages()


def test_pygame_is_not_missed(monkeypatch):
    found = packages.versions
    monkeypatch.setattr(packages, "versions", lambda name: [] if name == "pygame" else found(name))
    check_packages()


def test_another_version_that_breaks_nothing_passes(install):
    install("matplotlib", "99.0")
    check_packages()


def test_missing_packages_are_named_and_many_are_cut_short(tmp_path):
    lock = tmp_path / "few.lock"
    lock.write_text("# a comment\nmissing-a==1.0\nmissing-b==2.0 ; python_version < '3'\n")
    assert message_of([lock]) == (
        f"The packages in {sys.prefix} do not work together: not installed: missing-a.",
        ["missing-a==1.0"],
    )
    lock.write_text("".join(f"missing-{k}==1.0\n" for k in range(12)))
    problem, arguments = message_of([lock])
    assert problem.endswith("not installed: missing-0, missing-1, missing-2 and 9 more.")
    assert arguments == ["-r", str(lock)]


def test_a_run_does_not_start_with_packages_that_break_it(install, monkeypatch, capsys):
    install("numpy", "2.4.1")
    with pytest.raises(SystemExit) as raised:
        run_tool(run_share, ["run_script.sh", "local"])
    assert raised.value.code == 78
    assert "run_script.sh: The packages in " in capsys.readouterr().err


def test_no_command_starts_with_packages_that_break_it(install, capsys):
    install("numpy", "2.4.1")
    with pytest.raises(SystemExit) as raised:
        main(["list", "logs"])
    assert raised.value.code == 78
    assert "sac list: The packages in " in capsys.readouterr().err


@pytest.mark.parametrize(
    "imports", ["import tfagents_system.train_params_base", "import tfagents_system"]
)
def test_tf_function_takes_tracked_dicts_with_any_typing_extensions(imports):
    done = subprocess.run(
        [sys.executable, "-c", DICT_WRAPPER.format(imports=imports)],
        cwd=ROOT, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("[6.]\n", 0), done.stderr
