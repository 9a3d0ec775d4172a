import os
import pathlib
import signal
import time

import pytest

from tfagents_system.commands.check import check
from tfagents_system.commands.sweep import sweep
from tfagents_system.commands.train import train
from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.local.variables import read_variables


def test_what_a_variables_file_prints_is_no_variable(tmp_path):
    file = tmp_path / "my_variables.sh"
    file.write_text("SAC_EXP_NAME=arm\necho workers=4\necho two\n")
    environ = {"PATH": "/usr/bin:/bin", "A": "1", "B": "2\nC=3"}
    found = read_variables(file, environ)
    assert found.keys() - {"PWD", "SHLVL", "_", "OLDPWD"} == {*environ, "SAC_EXP_NAME"}
    assert {name: found[name] for name in environ} == environ


def test_a_variables_file_may_go_elsewhere_and_set_any_variable(tmp_path):
    file = tmp_path / "my_variables.sh"
    file.write_text("message=walk\ncd /\n")
    found = read_variables(file, {"PATH": "/usr/bin:/bin"})
    assert (found["message"], found["PWD"]) == ("walk", os.getcwd())


def test_what_a_variables_file_starts_in_the_background_is_not_waited_for(tmp_path):
    file = tmp_path / "my_variables.sh"
    file.write_text("sleep 45 &\nSTARTED=$!\nSAC_EXP_NAME=arm\n")
    began = time.monotonic()
    found = read_variables(file, {"PATH": "/usr/bin:/bin"})
    assert time.monotonic() - began < 30
    assert found["SAC_EXP_NAME"] == "arm"
    os.kill(int(found["STARTED"]), signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "arm.json",
            "arm.json is not a variables file, .* Beside it there are: arm_variables.sh.$",
        ),
        ("arm.py", "arm.py is not a variables file, a shell script that sets SAC_"),
        ("arm.yaml", "arm.yaml is not a variables file, a shell script that sets SAC_"),
        ("Arm-v0", "no such variables file: Arm-v0. Did you mean --env Arm-v0[?]"),
        ("arm.sh", "no such variables file: arm.sh. In its folder there are: arm_variables.sh.$"),
        ("code", "code is a folder, not a variables file. In it there are: code/my_variables.sh.$"),
        ("empty", "empty is a folder, not a variables file.$"),
        (
            "logs/arm",
            "logs/arm is an experiment, not a variables file. The command that started it",
        ),
    ],
)
@pytest.mark.parametrize(
    "command", [check, train, lambda file: sweep((file,), grid=("discount=0.9",))]
)
def test_what_is_no_variables_file_is_explained_and_never_executed(
    tmp_path, monkeypatch, command, name, message
):
    monkeypatch.chdir(tmp_path)
    for file in ("arm.json", "arm.py", "arm.yaml", "arm_variables.sh", "code/my_variables.sh"):
        path = pathlib.Path(file)
        path.parent.mkdir(exist_ok=True)
        path.write_text("touch PWNED\n")
    for folder in ("empty", "logs/arm/policies"):
        pathlib.Path(folder).mkdir(parents=True)
    with pytest.raises(ConfigError, match=message):
        command(pathlib.Path(name))
    assert not pathlib.Path("PWNED").exists()
