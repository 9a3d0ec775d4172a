"""What run_script.sh refuses before anything begins: input, files, ports and networks."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable

import pytest
from shell.sandbox import PARAMS, Sandbox, slowdown


def test_sbatch_runs_a_copy_of_the_script_from_a_spool_folder(sandbox, tmp_path):
    spool = tmp_path / "spool" / "slurm_script"
    spool.parent.mkdir()
    shutil.copy(sandbox.project / "run_script.sh", spool)
    environ = os.environ | {"SLURM_SUBMIT_DIR": str(sandbox.project), "SAC_EXP_NAME": ".wrong"}
    result = subprocess.run(
        [spool, "training_variables_pendulum.sh"],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 78
    assert result.stderr.startswith("run_script.sh: SAC_EXP_NAME is '.wrong'; expected letters")


def _write(path: str, text: str) -> Callable[[Sandbox], None]:
    return lambda sandbox: sandbox.write(path, text)


def _change_params(old: str, new: str) -> Callable[[Sandbox], None]:
    return _write("tfagents_system/pendulum_params.py", PARAMS.replace(old, new))


WRONG_INPUT = {
    "no variables file": (None, "no_such.sh", {}, "no such variables file: no_such.sh. There are: "
                          "training_variables.sh training_variables_minitaur.sh"),
    "shell syntax": (_write("v.sh", "if\n"), "v.sh", {}, "v.sh: line 2: syntax error"),
    "name not set": (_write("v.sh", ""), "v.sh", {}, "SAC_EXP_NAME is not set."),
    "no such network": (None, None, {"SAC_PRIVATE_NETWORK": "no"},
                        "SAC_PRIVATE_NETWORK is 'no'; expected auto, 0 or 1."),
    "unknown variable": (None, None, {"SAC_NUM_WORKERS": "2"}, "SAC_NUM_WORKERS is not a variable "
                         "of this system. Did you mean SAC_NUM_COLLECT_WORKERS?"),
    "zero workers": (None, None, {"SAC_NUM_COLLECT_WORKERS": "0"},
                     "SAC_NUM_COLLECT_WORKERS is '0'; expected auto or an integer from 1"),
    "missing JSON": (None, None, {"SAC_CONFIG": "no.json"}, "no.json: cannot read the JSON config"),
    "malformed JSON": (_write("config/pendulum.json", "{horizon: 3}"), None, {},
                       "config/pendulum.json: not valid JSON: Expecting property name"),
    "wrong JSON value": (_write("config/pendulum.json", '{"horizon": 0}'), None, {},
                         "config/pendulum.json: horizon is 0; expected an integer from 1"),
    "missing params": (None, None, {"SAC_PARAMS": "no.py"}, "no.py: cannot read the params file"),
    "params syntax": (_change_params("num_iter = 10", "num_iter ="), None, {},
                      "tfagents_system/pendulum_params.py:5: not valid Python: invalid syntax"),
    "no TrainParams": (_change_params("class TrainParams(", "class Params("), None, {},
                       "pendulum_params.py: does not define the class TrainParams."),
    "no env_ctor": (_change_params("env_ctor", "make_env"), None, {},
                    "pendulum_params.py:4: TrainParams does not define env_ctor"),
    "unknown hyperparameter": (_change_params("num_iter", "num_itr"), None, {},
                               "TrainParams.num_itr is not a training parameter. Did you mean "
                               "num_iter?"),
    "missing import": (_change_params("\nfrom", "import no_such_robot\nfrom"), None, {},
                       "pendulum_params.py:1: imports no_such_robot, which is neither installed"),
    "unknown gin name": (None, None, {"SAC_GIN_BINDINGS": "TrainParams.num_itr = 5"},
                         "SAC_GIN_BINDINGS: num_itr is not a training parameter. Did you mean "
                         "num_iter?"),
    "CPUs do not fit": (None, None, {"SAC_TRAIN_CPUS": "4000"},
                        "replay 1 + learner 4000 + worker 1 = 4002 CPUs, but this job has "),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_INPUT)
def test_wrong_input_is_answered_at_once_and_changes_no_file(sandbox, case):
    change, variables, environ, message = WRONG_INPUT[case]
    if change is not None:
        change(sandbox)
    for _ in range(3):  # the quickest counts: a busy machine may hold up one of them
        began = time.monotonic()
        code, out, err = sandbox.run(variables or "training_variables_pendulum.sh", **environ)
        secs = time.monotonic() - began
        if secs < 2:
            break
    assert secs < 2 * slowdown()
    assert err.startswith("run_script.sh: ") and message in err and len(err.splitlines()) == 1
    assert (code, out) == (78, "")
    assert not (sandbox.project / "logs").exists()


def _write_bytes(path: str, content: bytes) -> Callable[[Sandbox], None]:
    return lambda sandbox: (sandbox.project / path).write_bytes(content)


MALFORMED_INPUT = {
    "variables: exit": (_write("v.sh", "exit 0\n"), "v.sh", "v.sh ended this script (exit, or"),
    "variables: a variable of theirs": (_write("v.sh", ': "${ROBOT:?is not set}"\n'), "v.sh",
                                        "ROBOT: is not set"),
    "variables: a text": (_write("v.sh", "Dear robot, please walk.\n"), "v.sh",
                          "SAC_EXP_NAME is not set."),
    "variables: JSON": (_write("v.sh", '{"horizon": 200}\n'), "v.sh", "SAC_EXP_NAME is not set."),
    "variables: an open quote": (_write("v.sh", 'SAC_EXP_NAME="a\n'), "v.sh", "v.sh: line 1: une"),
    "variables: UTF-16": (_write_bytes("v.sh", "SAC_EXP_NAME=a\n".encode("utf-16")), "v.sh",
                          "v.sh is UTF-16, which bash cannot read; as UTF-8 it can: iconv"),
    "variables: NUL bytes": (_write_bytes("v.sh", b"# mine\nSAC_EXP_NAME=\0\n"), "v.sh",
                             "SAC_EXP_NAME is not set."),
    "variables: CRLF": (_write_bytes("v.sh", b"SAC_EXP_NAME=a\r\n"), "v.sh",
                        "v.sh has the byte order mark or the line ends (CRLF) of Windows"),
    "variables: a folder": (None, "config", "no such variables file: config."),
    "JSON: not text": (_write_bytes("config/pendulum.json", b"\xff\0"), None,
                       "config/pendulum.json: cannot read the JSON config ('utf-8' codec"),
    "params: NUL bytes": (_write_bytes("tfagents_system/pendulum_params.py", b"x = 1\0\n"), None,
                          "not valid Python: source code string cannot contain null bytes"),
    "params: deep": (_write("tfagents_system/pendulum_params.py", "x = " + "-" * 9_999 + "1"), None,
                     "tfagents_system/pendulum_params.py: nested too deeply"),
}  # fmt: skip


@pytest.mark.fault_row("malformed input")
@pytest.mark.parametrize("case", MALFORMED_INPUT)
def test_malformed_files_are_answered_without_a_traceback_or_a_folder(sandbox, case):
    change, variables, message = MALFORMED_INPUT[case]
    if change is not None:
        change(sandbox)
    code, out, err = sandbox.run(variables or "training_variables_pendulum.sh")
    assert (code, out) == (78, "")
    assert message in err and "run_script.sh: " in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (sandbox.project / "logs").exists()


def test_port_in_use_is_refused(sandbox):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as a gRPC server does
        server.bind(("", 0))
        server.listen()
        port = server.getsockname()[1]
        code, _, err = sandbox.run(SAC_REVERB_PORT=str(port), SAC_PRIVATE_NETWORK="0")
    assert code == 78
    assert f"SAC_REVERB_PORT is {port}, which is in use by another program" in err
    assert not (sandbox.project / "logs").exists()
