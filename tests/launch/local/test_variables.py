import os
import signal
import time

from tfagents_system.launch.local.variables import read_variables


def test_what_a_variables_file_prints_is_no_variable(tmp_path):
    file = tmp_path / "my_variables.sh"
    file.write_text("SAC_EXP_NAME=arm\necho workers=4\necho two\n")
    environ = {"PATH": "/usr/bin:/bin", "A": "1", "B": "2\nC=3"}
    found = read_variables(file, environ)
    assert found.keys() - {"PWD", "SHLVL", "_", "OLDPWD"} == {*environ, "SAC_EXP_NAME"}
    assert {name: found[name] for name in environ} == environ


def test_what_a_variables_file_starts_in_the_background_is_not_waited_for(tmp_path):
    file = tmp_path / "my_variables.sh"
    file.write_text("sleep 45 &\nSTARTED=$!\nSAC_EXP_NAME=arm\n")
    began = time.monotonic()
    found = read_variables(file, {"PATH": "/usr/bin:/bin"})
    assert time.monotonic() - began < 30
    assert found["SAC_EXP_NAME"] == "arm"
    os.kill(int(found["STARTED"]), signal.SIGTERM)
