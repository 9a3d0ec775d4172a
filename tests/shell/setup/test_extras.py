"""Extras of setup.sh --with, and the lock files."""

import re

import pytest
from shell.setup.sandbox import LOCK_FILES, PROJECT


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
    everything = "box2d dm_control docs lerobot mlflow mujoco onnx optuna ray wandb"
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


def lock_again(path, name, version):
    """Gives a pin of a lock file another version; returns the one before."""
    text = path.read_text()
    (before,) = re.findall(rf"^{name}==(\S+)$", text, re.MULTILINE)
    path.write_text(text.replace(f"\n{name}=={before}\n", f"\n{name}=={version}\n"))
    return before


def test_later_calls_keep_the_versions_that_the_user_has_installed(ready):
    # The tests' Python stands for .venv: what is installed there, setup.sh has not installed here.
    own = lock_again(ready.project / "locks/mujoco.lock", "mujoco", "98.0")
    assert ready.run("--with", "mujoco")[0] == 0
    ready.tape()
    status, _, stderr = ready.run("--with", "optuna")
    assert status == 0
    assert f"setup: keeping your mujoco {own}; locked is 98.0 " in stderr
    assert all(line.startswith("setup: ") for line in stderr.splitlines())
    constraint, pip, ours = ready.tape()
    assert pip == "pip -r .venv/.pins" and [constraint, ours] == ready.installed()[::2]
    pins = (ready.project / ".venv/.pins").read_text().splitlines()
    assert any(pin.startswith("optuna==") for pin in pins)
    assert not any(pin.startswith("mujoco==") for pin in pins)
    assert ready.run() == (0, f"{ready.venv_bin}\n", "")


def test_what_setup_has_installed_follows_a_newer_lock(ready):
    ready.run("--with", "mujoco")
    ready.tape()
    lock_again(ready.project / "locks/mujoco.lock", "mujoco", "98.0")
    assert "keeping" not in ready.run()[2]
    assert ready.tape() == ready.installed("base", "mujoco")


def test_a_version_with_which_learning_does_not_work_is_replaced_with_a_word(ready):
    lock = ready.project / "locks/base.lock"
    own = lock_again(lock, "numpy", "0.9")
    ready.run()
    constraints = ready.project / "locks/constraints.txt"
    text = constraints.read_text()
    assert "\nnumpy<2.0.0," in text
    constraints.write_text(text.replace("\nnumpy<2.0.0,", "\nnumpy<1.0,"))
    ready.tape()
    stderr = ready.run("--with", "optuna")[2]
    assert f"setup: installing numpy 0.9 in place of your {own}, with which learning" in stderr
    assert ready.tape() == ready.installed("base", "optuna")
