"""run_script.sh and train_script.sh with stub programs under a real supervise."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Callable

import pytest
from namespaces import NO_MORE_NETWORKS, USERS, needs_namespaces
from report_fakes import learner_report, write_report
from shell.sandbox import PARAMS, STARTS, TWO, Sandbox

from tfagents_system.core.state.generations import generation_dir
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until


def test_finished_training_ends_everything_and_says_how_to_go_on(sandbox):
    code, out, err = sandbox.run(**TWO, STUB_LEARNER="finish", http_proxy="http://nowhere",
                                 grpc_proxy="http://nowhere")  # fmt: skip
    assert code == 0, err
    assert sandbox.alive() == {}
    tape = sandbox.tape()
    assert sorted(tape[:4]) == STARTS
    assert tape[4] == "learner finishes"
    assert sorted(tape[5:7]) == ["worker_0 finishes", "worker_1 finishes"]
    assert tape[7:] == ["replay stops"]
    assert out.startswith("New experiment logs/pendulum, seed ")
    assert "-m tfagents_system eval logs/pendulum --num_episodes 5" in err

    worker, learner = sandbox.seen("worker_1"), sandbox.seen("learner")
    available = sorted(os.sched_getaffinity(0))
    assert set(worker["cpus"]) <= set(available) and set(learner["cpus"]) <= set(available)
    assert len(available) > 3 or learner["cpus"] == available
    assert worker["argv"][0] == str(sandbox.project / "tfagents_system/sac_collect.py")
    assert worker["argv"][1] == f"--exp_dir={sandbox.exp_dir}"
    assert worker["environ"]["SLURM_PROCID"] == "1"
    assert worker["environ"]["OMP_NUM_THREADS"] == "1"
    assert worker["environ"]["PYTHONPATH"].split(":")[0] == str(sandbox.project)
    assert not [name for name in worker["environ"] if name.endswith("_proxy")]
    port = sandbox.seen("replay")["argv"][2].removeprefix("--port=")
    assert learner["argv"][2] == f"--replay_address=localhost:{port}"

    provenance = json.loads((sandbox.exp_dir / "provenance.json").read_text())
    assert provenance["cpus"]["learner"] == learner["cpus"]

    code, _, err = sandbox.run(**TWO)
    assert code == 78
    assert "logs/pendulum is finished: it has trained its 10 iterations." in err
    assert "SAC_GIN_BINDINGS='TrainParams.num_iter = 20'" in err
    code, out, err = sandbox.run(
        **TWO, STUB_LEARNER="finish", SAC_GIN_BINDINGS="TrainParams.num_iter = 20"
    )
    assert code == 0, err
    assert "Resuming logs/pendulum" in out
    assert "gin bindings in force: TrainParams.num_iter = 20" in out


def test_ctrl_c_twice_stops_in_order_and_the_same_command_resumes(sandbox):
    ours, terminal = pty.openpty()
    run = sandbox.start(**TWO, terminal=terminal, TERM="xterm")
    sandbox.await_tape(*STARTS)
    os.write(ours, b"\x03")
    time.sleep(0.1)
    os.write(ours, b"\x03")
    _, err = run.communicate(timeout=20)
    screen = os.read(ours, 100_000).decode()
    assert run.returncode == 143
    assert sandbox.alive() == {}
    tape = sandbox.tape()[4:]
    assert sorted(tape[:2]) == ["worker_0 stops", "worker_1 stops"]
    assert tape[2:] == ["learner stops", "replay stops"]
    assert "the same command goes on" in err.lower()
    assert "\rstarting learner, replay, worker_0, worker_1\x1b[K" in screen

    seed = json.loads((sandbox.exp_dir / "provenance.json").read_text())["seed"]
    sandbox.write("config/pendulum.json", '{"horizon": 100, "mass": 2}')
    run = sandbox.start(**TWO)
    wait_until(lambda: len(sandbox.tape()) == 12, 10, "the second start")
    run.terminate()
    out, _ = run.communicate(timeout=20)
    assert run.returncode == 143
    assert f"Resuming logs/pendulum, seed {seed}." in out
    assert "config/pendulum.json differs in horizon, mass; the run keeps its own values" in out
    assert json.loads((sandbox.exp_dir / "config.json").read_text()) == {"horizon": 200}


def test_a_terminal_that_takes_no_more_holds_up_nothing(sandbox):
    _, terminal = pty.openpty()
    to_terminal = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    run = sandbox.start(**TWO, terminal=terminal, prefix=to_terminal)
    sandbox.await_tape(*STARTS)
    launcher = sandbox.pid_of("train_script.sh")
    termios.tcflow(terminal, termios.TCOOFF)  # as Ctrl-S does
    time.sleep(1.5)  # the status line waits
    os.kill(sandbox.pid_of("supervise", "learner"), signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("learner starts") == 2, 20, "the learner's restart")
    os.kill(launcher, signal.SIGTERM)
    assert run.wait(timeout=40) == 143
    assert sandbox.alive() == {}
    assert sandbox.tape()[-2:] == ["learner stops", "replay stops"]


def test_kill_9_of_a_program_of_supervise_and_of_the_launcher(sandbox):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    before = sandbox.seen("learner")["pid"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: sandbox.seen("learner")["pid"] != before, 10, "the learner's restart")

    os.kill(sandbox.pid_of("supervise", "worker_1"), signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("worker_1 starts") == 2, 10, "the worker's restart")
    assert sandbox.tape().count("worker_1 stops") == 1  # before the new one started
    assert sandbox.tape().count("worker_0 starts") == 1

    second = sandbox.start(**TWO)
    _, err = second.communicate(timeout=10)
    assert second.returncode == 78
    assert "run_script.sh: logs/pendulum is in use by another run (process " in err
    assert str(sandbox.seen("replay")["pid"]) in err

    run.kill()
    wait_until(lambda: not sandbox.alive(), 5, f"the end of {sandbox.alive()}")


def test_crash_loop_gives_up_with_the_traceback(sandbox):
    sandbox.start_again_soon()
    code, _, err = sandbox.run(**TWO, STUB_WORKER_1="crash")
    assert code == 1
    assert sandbox.alive() == {}
    assert sandbox.tape().count("worker_1 starts") == 5
    assert sandbox.tape()[-3:] == ["worker_0 stops", "learner stops", "replay stops"]
    assert "worker_1 failed again after 4 restarts (exit code 1). Its log is " in err
    assert err.count("RuntimeError: no such motor") == 1


@pytest.mark.parametrize(
    "mode, code, line",
    [
        ("wrong", 78, "sac_train.py: config.json: leg_length is -1; allowed is a number > 0."),
        ("crash", 1, "RuntimeError: no such motor"),
    ],
)
def test_a_learner_that_cannot_be_built_leaves_no_new_experiment(sandbox, mode, code, line):
    sandbox.start_again_soon()
    code_of_run, _, err = sandbox.run(**TWO, STUB_LEARNER=mode)
    assert code_of_run == code
    assert sandbox.alive() == {}
    assert list(sandbox.exp_dir.parent.iterdir()) == []
    assert (
        "run_script.sh: learner failed before anything was trained; logs/pendulum was not kept:\n"
        in err
    )
    assert err.endswith(f"  {line}\n")


def test_wrong_configuration_found_by_a_program_stops_an_old_experiment_with_78(sandbox):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    run.terminate()
    run.communicate(timeout=40)
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="wrong")
    assert code == 78
    assert sandbox.alive() == {}
    assert sandbox.tape().count("learner starts") == 2
    assert "  sac_train.py: config.json: leg_length is -1; allowed is a number > 0." in err
    assert "What had been saved is in logs/pendulum; the same command goes on from there." in err


def test_a_stop_that_could_not_save_says_so_and_ends_with_74(sandbox):
    run = sandbox.start(**TWO, STUB_LEARNER="unsaved")
    sandbox.await_tape(*STARTS)
    run.terminate()
    _, err = run.communicate(timeout=40)
    assert run.returncode == 74
    assert sandbox.alive() == {}
    assert err.endswith(
        "Stopped, but not saved: sac_train.py: the last 200 train steps are not saved: no disk. "
        "The same command begins anew.\n"
    )


def test_a_learner_that_cannot_save_its_end_ends_the_run_with_74_and_is_not_started_again(sandbox):
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="unsavable")
    assert code == 74
    assert sandbox.alive() == {}
    assert sandbox.tape().count("learner starts") == 1
    assert "learner cannot read or save on this disk (exit code 74). Its log is " in err
    assert "  sac_train.py: the last 200 train steps are not saved: no disk. " in err
    assert "Training is finished" not in err


def test_a_superseded_worker_ends_alone_and_a_superseded_learner_ends_the_start(sandbox):
    run = sandbox.start(**TWO, STUB_WORKER_1="superseded")
    sandbox.await_tape(*STARTS)
    (sandbox.exp_dir / "superseded").touch()
    sandbox.await_tape("worker_1 is superseded")
    service = "service/worker_1"
    wait_until(lambda: not any(service in line for line in sandbox.alive().values()), 10, service)
    run.terminate()
    _, err = run.communicate(timeout=40)
    assert run.returncode == 143
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="superseded")
    assert code == 75
    assert sandbox.alive() == {}
    assert sandbox.tape().count("worker_1 starts") == sandbox.tape().count("learner starts") == 2
    assert sandbox.tape()[-1] == "replay stops"
    assert err.endswith("a later start of the run has taken over; this one has ended.\n")


def test_a_superseded_start_does_not_wait_for_a_learner_that_cannot_save(sandbox):
    """Without the replay server, which has ended first."""
    run = sandbox.start(**TWO, STUB_REPLAY="superseded", STUB_LEARNER="deaf")
    sandbox.await_tape(*STARTS)
    (sandbox.exp_dir / "superseded").touch()
    _, err = run.communicate(timeout=20)
    assert run.returncode == 75
    assert sandbox.alive() == {}
    assert "learner ended within 5 s; killing them" in err


@pytest.mark.parametrize("mode", ["exits", "is killed"])
def test_user_code_that_ends_each_start_is_tried_five_times_and_heard_at_once(sandbox, mode):
    code, out, err = sandbox.run(STUB_WORKER_0=mode)
    assert code == 1
    assert sandbox.tape().count("worker_0 starts") == 5
    assert "worker_0 failed again after 4 restarts (exit code 69)" in err
    if mode == "exits":
        said = "TrainParams.env_ctor raised SystemExit: please set SIM_HOME ("
        assert f"sac_collect.py: {said}" in err
        assert f"worker_0: {said}" in out  # in the status line, while it was tried again


def test_a_stop_reaches_a_program_whose_user_code_catches_signals(sandbox):
    run = sandbox.start(STUB_LEARNER="catches signals", STUB_WORKER_0="catches signals")
    sandbox.await_tape(*STARTS[:3])
    time.sleep(0.5)
    began = time.monotonic()
    run.terminate()
    _, err = run.communicate(timeout=40)
    assert run.returncode == 143
    assert time.monotonic() - began < 10
    assert {"learner stops", "worker_0 stops"} <= set(sandbox.tape())
    assert "killing" not in err and "hears it for itself" not in "".join(sandbox.tape())


def test_a_learner_that_is_killed_at_a_stop_is_named_with_what_is_lost(sandbox):
    """The trap waits 120 s for it, so it dies here by itself."""
    run = sandbox.start(STUB_LEARNER="dies at a stop")
    sandbox.await_tape(*STARTS[:3])
    paths = ExperimentPaths(sandbox.exp_dir)
    write_report(paths, learner_report(train_step=1_396))
    generation_dir(paths.checkpoints, 1_000).mkdir(parents=True)
    time.sleep(0.5)
    run.terminate()
    _, err = run.communicate(timeout=40)
    assert run.returncode == 74
    assert err.endswith(
        "Stopped, but not saved: the learner was killed at train step 1,396 before it had saved; "
        f"{1_396 - 1_000} train steps are lost. The same command goes on from train step 1,000.\n"
    )


@pytest.mark.slow
def test_a_program_that_ignores_term_is_killed(sandbox):
    run = sandbox.start(**TWO, STUB_WORKER_0="deaf")
    sandbox.await_tape(*STARTS)
    time.sleep(0.5)
    run.terminate()
    _, err = run.communicate(timeout=40)
    assert run.returncode == 143
    assert sandbox.alive() == {}
    assert "worker_1 ended within 20 s; killing them" in err


def test_sbatch_runs_a_copy_of_the_script_from_a_spool_folder(sandbox, tmp_path):
    spool = tmp_path / "spool" / "slurm_script"
    spool.parent.mkdir()
    shutil.copy(sandbox.project / "run_script.sh", spool)
    environ = os.environ | {"SLURM_SUBMIT_DIR": str(sandbox.project), "SAC_EXP_NAME": ".wrong"}
    result = subprocess.run(
        [spool, "training_variables_pendulum.sh"],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=10,
    )  # fmt: skip
    assert result.returncode == 78
    assert result.stderr.startswith("run_script.sh: SAC_EXP_NAME is '.wrong'; allowed are letters")


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
                        "SAC_PRIVATE_NETWORK is 'no'; allowed is auto, 0 or 1."),
    "unknown variable": (None, None, {"SAC_NUM_WORKERS": "2"}, "SAC_NUM_WORKERS is not a variable "
                         "of this system. Did you mean SAC_NUM_COLLECT_WORKERS?"),
    "zero workers": (None, None, {"SAC_NUM_COLLECT_WORKERS": "0"},
                     "SAC_NUM_COLLECT_WORKERS is '0'; allowed is auto or an integer from 1"),
    "missing JSON": (None, None, {"SAC_CONFIG": "no.json"}, "no.json: cannot read the JSON config"),
    "malformed JSON": (_write("config/pendulum.json", "{horizon: 3}"), None, {},
                       "config/pendulum.json: not valid JSON: Expecting property name"),
    "wrong JSON value": (_write("config/pendulum.json", '{"horizon": 0}'), None, {},
                         "config/pendulum.json: horizon is 0; allowed is an integer from 1"),
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
    assert secs < 2
    assert err.startswith("run_script.sh: ") and message in err and len(err.splitlines()) == 1
    assert (code, out) == (78, "")
    assert not (sandbox.project / "logs").exists()


@pytest.mark.parametrize("user", USERS)
def test_programs_share_a_private_network_and_are_reached_as_ever(sandbox, user):
    needs_namespaces()
    run = sandbox.start(**TWO, prefix=USERS[user])
    sandbox.await_tape(*STARTS)
    seen = [sandbox.seen(name) for name in ("replay", "learner", "worker_0", "worker_1")]
    (network,) = {program["network"] for program in seen}
    assert network != os.readlink("/proc/self/ns/net")
    assert network == os.readlink(f"/proc/{run.pid}/ns/net")
    assert {program["pid"] for program in seen} | {run.pid} <= set(sandbox.alive())
    ignored = re.search(r"SigIgn:\s*(\w+)", pathlib.Path(f"/proc/{run.pid}/status").read_text())
    assert not int(ignored[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGINT - 1)

    os.kill(sandbox.seen("learner")["pid"], signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("learner starts") == 2, 10, "the learner's restart")
    assert sandbox.seen("learner")["network"] == network
    run.terminate()
    out, _ = run.communicate(timeout=20)
    assert run.returncode == 143
    assert sandbox.alive() == {}
    assert "\nNetwork: private, " in out
    files = [path.lstat() for path in sandbox.exp_dir.rglob("*")]
    assert {(file.st_uid, file.st_gid) for file in files} == {(os.geteuid(), os.getegid())}


def test_open_network_is_that_of_the_machine(sandbox):
    code, out, err = sandbox.run(**TWO, SAC_PRIVATE_NETWORK="0", STUB_LEARNER="finish")
    assert code == 0, err
    assert sandbox.seen("replay")["network"] == os.readlink("/proc/self/ns/net")
    assert out.count("Network: ") == 1
    assert "can connect to the replay server (SAC_PRIVATE_NETWORK is 0)." in out


def test_where_no_network_can_be_made_auto_says_so_and_1_is_refused(sandbox):
    needs_namespaces()  # to make a place where there can be none
    code, out, err = sandbox.run(prefix=NO_MORE_NETWORKS, SAC_PRIVATE_NETWORK="1")
    assert (code, out) == (78, "")
    assert err.startswith("run_script.sh: SAC_PRIVATE_NETWORK is 1, but a private network is not ")
    assert "(unshare: No space left on device; user.max_user_namespaces or " in err
    assert len(err.splitlines()) == 1
    assert not (sandbox.project / "logs").exists()

    code, out, err = sandbox.run(prefix=NO_MORE_NETWORKS, STUB_LEARNER="finish")
    assert code == 0, err
    assert out.count("Network: ") == 1
    assert "Network: open, " in out and "(a private one is not possible here: unshare: " in out


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
        code, _, err = sandbox.run(SAC_REVERB_PORT=str(port))
    assert code == 78
    assert f"SAC_REVERB_PORT is {port}, which is in use by another program" in err
    assert not (sandbox.project / "logs").exists()


def test_a_stop_just_after_the_status_was_started_does_not_hang(sandbox):
    path = "tfagents_system/launch/local/train_script.sh"
    script = (sandbox.project / path).read_text()
    assert script.count("\n  reporter=$!\n") == 1
    sandbox.write(path, script.replace("\n  reporter=$!", "\n  kill -TERM $$\n  reporter=$!"))
    assert sandbox.start(**TWO).wait(timeout=40) == 143
    wait_until(lambda: sandbox.alive() == {}, 10, "the end of all processes")
