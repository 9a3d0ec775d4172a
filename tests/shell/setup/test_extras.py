"""Extras of setup.sh --with, and the lock files."""

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
