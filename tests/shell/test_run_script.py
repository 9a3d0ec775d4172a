import itertools
import json
import os
import pty
import re
import signal
import termios
import time

import pytest
from report_fakes import learner_report, worker_report, write_report
from shell.sandbox import PARAMS, STARTS, TWO

from tfagents_system.core.state.generations import generation_dir
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.waiting import wait_until


@pytest.mark.system
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
    assert "To train as many more, add --extend 10 to sac train." in err
    code, out, err = sandbox.run(
        **TWO, STUB_LEARNER="finish", SAC_GIN_BINDINGS="TrainParams.num_iter = 20"
    )
    assert code == 0, err
    assert "Resuming logs/pendulum" in out
    assert "gin bindings in force: TrainParams.num_iter = 20" in out


def shorten_last_wait(sandbox, **secs):
    path = sandbox.project / "tfagents_system/launch/link/last_workers.py"
    text = path.read_text()
    for name, value in secs.items():
        text, count = re.subn(rf"^{name} = \S+", f"{name} = {value}", text, flags=re.MULTILINE)
        assert count == 1, name
    path.write_text(text)


def test_a_last_evaluation_may_take_longer_than_anything_else_at_the_end(sandbox):
    shorten_last_wait(sandbox, TIMEOUT_SECS=5.0)
    paths = ExperimentPaths(sandbox.exp_dir)
    run = sandbox.start(**TWO, STUB_LEARNER="finish", STUB_WORKER_0="evaluates")
    sandbox.await_tape("learner finishes", "worker_1 finishes")
    write_report(paths, worker_report(1, phase=Phase.FINISHED))
    deadline = time.monotonic() + 12.0  # and what python takes to start
    for sequence in itertools.count():
        if time.monotonic() > deadline:
            break
        write_report(paths, worker_report(0, phase=Phase.EVALUATING, sequence=sequence))
        time.sleep(0.1)
    assert run.poll() is None
    assert "worker_0 stops" not in sandbox.tape()
    (paths.root / "evaluated").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert sandbox.tape()[-2:] == ["worker_0 finishes", "replay stops"]
    assert "may lack episodes" not in err
    assert sandbox.alive() == {}


def test_a_last_evaluation_that_is_cut_is_reported_and_so_is_a_stop_meanwhile(sandbox):
    environ = TWO | {"STUB_LEARNER": "finish", "STUB_WORKER_0": "evaluates"}
    paths = ExperimentPaths(sandbox.exp_dir)
    run = sandbox.start(**environ)
    sandbox.await_tape("learner finishes", "worker_1 finishes")
    time.sleep(1.0)  # it is waiting, without a limit as short as that
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert (run.returncode, sandbox.alive()) == (143, {}), err
    assert "worker_0 stops" in sandbox.tape()

    paths.finished.unlink()
    shorten_last_wait(sandbox, LONG_STEP_SECS=2.0, TIMEOUT_SECS=3.0)
    sandbox.set("train_script.sh", LAST_CLOSE_SECS=1)
    run = sandbox.start(**environ)
    wait_until(lambda: sandbox.tape().count("learner finishes") == 2, 60, "the end")
    write_report(paths, worker_report(0, phase=Phase.EVALUATING))
    write_report(paths, worker_report(1, phase=Phase.FINISHED))
    _, err = run.communicate(timeout=60)
    assert (run.returncode, sandbox.alive()) == (0, {}), err
    why = r"may lack episodes: worker_0 \(evaluating on here\) has been silent for \d+ s\."
    assert re.search(why, err), err
    assert sandbox.tape()[-2:] == ["worker_0 stops", "replay stops"]


def test_user_code_works_in_the_folder_where_the_command_is_given(sandbox, tmp_path):
    mine = tmp_path / "my lab"
    mine.mkdir()
    (mine / "arm_params.py").write_text(PARAMS)
    (mine / "arm.sh").write_text("SAC_EXP_NAME=pendulum SAC_PARAMS=arm_params.py\n"
                                 "SAC_CONFIG=config/pendulum.json\n")  # fmt: skip
    code, out, err = sandbox.run("arm.sh", folder=mine, STUB_LEARNER="finish")
    assert code == 0, err
    environ = sandbox.seen("worker_0")["environ"]
    assert environ["SERVICE_WORKING_DIR"] == str(mine)  # to which process_start.py changes
    assert "COMMAND_WORKING_DIR" not in environ
    provenance = json.loads((sandbox.exp_dir / "provenance.json").read_text())
    assert provenance["params_dir"] == str(mine)
    assert provenance["params_name"] == "arm_params.py"


def test_a_variables_file_may_go_elsewhere_and_set_any_variable(sandbox, tmp_path):
    mine = tmp_path / "my lab"
    mine.mkdir()
    (mine / "arm_params.py").write_text(PARAMS)
    (mine / "setup.sh").write_text(f"#!/bin/sh\ntouch '{tmp_path}/wrong'\nexit 1\n")
    (mine / "setup.sh").chmod(0o755)
    own = {name: "my own" for name in ("called_in", "name", "folders", "message")}
    (mine / "arm.sh").write_text(
        "SAC_EXP_NAME=pendulum SAC_PARAMS=arm_params.py SAC_CONFIG=config/pendulum.json\n"
        f"project='{mine}'\ncd '{mine}'\n" + "".join(f"{n}='{x}'\n" for n, x in own.items())
    )
    code, _, err = sandbox.run("arm.sh", folder=mine, STUB_LEARNER="finish")
    assert code == 0, err
    assert not (tmp_path / "wrong").exists()
    environ = sandbox.seen("worker_0")["environ"]
    assert {name: environ[name] for name in own} == own
    assert environ["SERVICE_WORKING_DIR"] == str(mine)
    provenance = json.loads((sandbox.exp_dir / "provenance.json").read_text())
    assert provenance["params_dir"] == str(mine)


def test_ctrl_c_twice_stops_in_order_and_the_same_command_resumes(sandbox):
    ours, terminal = pty.openpty()
    run = sandbox.start(**TWO, terminal=terminal, TERM="xterm")
    sandbox.await_tape(*STARTS)
    screen = ""  # the status line comes after the programs; the test's timeout ends this
    while "starting learner, replay, worker_0, worker_1" not in screen:
        screen += os.read(ours, 100_000).decode()
    os.write(ours, b"\x03")
    time.sleep(0.1)
    os.write(ours, b"\x03")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 143
    assert sandbox.alive() == {}
    tape = sandbox.tape()[4:]
    assert sorted(tape[:2]) == ["worker_0 stops", "worker_1 stops"]
    assert tape[2:] == ["learner stops", "replay stops"]
    assert "the same command resumes" in err.lower()
    assert "\r\x1b[Kstarting learner, replay, worker_0, worker_1" in screen

    seed = json.loads((sandbox.exp_dir / "provenance.json").read_text())["seed"]
    sandbox.write("config/pendulum.json", '{"horizon": 100, "mass": 2}')
    run = sandbox.start(**TWO)
    wait_until(lambda: len(sandbox.tape()) == 12, 60, "the second start")
    run.terminate()
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 143
    assert f"Resuming logs/pendulum, seed {seed}." in out
    assert "config/pendulum.json differs in horizon, mass; the run keeps its own values" in out
    assert json.loads((sandbox.exp_dir / "config.json").read_text()) == {"horizon": 200}


@pytest.mark.system
def test_a_terminal_that_takes_no_more_holds_up_nothing(sandbox):
    _, terminal = pty.openpty()
    to_terminal = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    run = sandbox.start(**TWO, terminal=terminal, prefix=to_terminal)
    sandbox.await_tape(*STARTS)
    launcher = sandbox.pid_of("train_script.sh")
    termios.tcflow(terminal, termios.TCOOFF)  # as Ctrl-S does
    time.sleep(1.5)  # the status line waits
    os.kill(sandbox.pid_of("supervise", "learner"), signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("learner starts") == 2, 60, "the learner's restart")
    os.kill(launcher, signal.SIGTERM)
    assert run.wait(timeout=60) == 143
    assert sandbox.alive() == {}
    assert sandbox.tape()[-2:] == ["learner stops", "replay stops"]


def test_kill_9_of_a_program_of_supervise_and_of_the_launcher(sandbox):
    run = sandbox.start(**TWO)
    sandbox.await_tape(*STARTS)
    before = sandbox.seen("learner")["pid"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: sandbox.seen("learner")["pid"] != before, 60, "the learner's restart")

    os.kill(sandbox.pid_of("supervise", "worker_1"), signal.SIGKILL)
    wait_until(lambda: sandbox.tape().count("worker_1 starts") == 2, 60, "the worker's restart")
    assert sandbox.tape().count("worker_1 stops") == 1  # before the new one started
    assert sandbox.tape().count("worker_0 starts") == 1

    second = sandbox.start(**TWO)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 78
    assert "run_script.sh: logs/pendulum is in use by another run (process " in err
    assert str(sandbox.seen("replay")["pid"]) in err

    run.kill()
    wait_until(lambda: not sandbox.alive(), 60, f"the end of {sandbox.alive()}")


@pytest.mark.system
def test_crash_loop_gives_up_with_the_traceback(sandbox):
    sandbox.start_again_soon()
    code, _, err = sandbox.run(**TWO, STUB_WORKER_1="crash")
    assert code == 1
    assert sandbox.alive() == {}
    assert sandbox.tape().count("worker_1 starts") == 5
    assert sandbox.tape()[-3:] == ["worker_0 stops", "learner stops", "replay stops"]
    assert "worker_1 failed again after 4 restarts (exit code 1). Its log is " in err
    assert err.count("RuntimeError: no such motor") == 1


@pytest.mark.system
@pytest.mark.parametrize(
    "mode, code, line",
    [
        ("wrong", 78, "sac_train.py: config.json: leg_length is -1; expected a number > 0."),
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
    run.communicate(timeout=60)
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="wrong")
    assert code == 78
    assert sandbox.alive() == {}
    assert sandbox.tape().count("learner starts") == 2
    assert "  sac_train.py: config.json: leg_length is -1; expected a number > 0." in err
    assert (
        "What had been saved is in logs/pendulum; without the mistake, the same command resumes "
        "from there."
    ) in err


def test_a_stop_that_could_not_save_says_so_and_ends_with_74(sandbox):
    run = sandbox.start(**TWO, STUB_LEARNER="unsaved")
    sandbox.await_tape(*STARTS)
    run.terminate()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 74
    assert sandbox.alive() == {}
    assert err.endswith(
        "Stopped, but not saved: sac_train.py: the last 200 train steps are not saved: no disk. "
        "The same command resumes.\n"
    )


def test_a_learner_that_cannot_save_its_end_ends_the_run_with_74_and_is_not_started_again(sandbox):
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="unsavable")
    assert code == 74
    assert sandbox.alive() == {}
    assert sandbox.tape().count("learner starts") == 1
    assert "learner cannot read or save on this disk (exit code 74). Its log is " in err
    assert "  sac_train.py: the last 200 train steps are not saved: no disk. " in err
    assert "Training is finished" not in err


@pytest.mark.system
def test_a_superseded_worker_ends_alone_and_a_superseded_learner_ends_the_start(sandbox):
    run = sandbox.start(**TWO, STUB_WORKER_1="superseded")
    sandbox.await_tape(*STARTS)
    (sandbox.exp_dir / "superseded").touch()
    sandbox.await_tape("worker_1 is superseded")
    service = "service/worker_1"
    wait_until(lambda: not any(service in line for line in sandbox.alive().values()), 60, service)
    run.terminate()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 143
    code, _, err = sandbox.run(**TWO, STUB_LEARNER="superseded")
    assert code == 75
    assert sandbox.alive() == {}
    assert sandbox.tape().count("worker_1 starts") == sandbox.tape().count("learner starts") == 2
    assert sandbox.tape()[-1] == "replay stops"
    assert err.endswith("a later start of the run has taken over; this one has ended.\n")


@pytest.mark.system
def test_a_superseded_start_does_not_wait_for_a_learner_that_cannot_save(sandbox):
    """Without the replay server, which has ended first."""
    run = sandbox.start(**TWO, STUB_REPLAY="superseded", STUB_LEARNER="deaf")
    sandbox.await_tape(*STARTS)
    (sandbox.exp_dir / "superseded").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 75
    assert sandbox.alive() == {}
    assert "learner ended within 5 s; killing them" in err


@pytest.mark.system
@pytest.mark.parametrize("mode", ["exits", "is killed"])
def test_user_code_that_ends_each_start_is_tried_five_times_and_heard_at_once(sandbox, mode):
    code, out, err = sandbox.run(STUB_WORKER_0=mode)
    assert code == 1
    assert sandbox.tape().count("worker_0 starts") == 5
    assert "worker_0 failed again after 4 restarts (exit code 69)" in err
    if mode == "exits":  # without a place, for the stub lies in our package
        said = "TrainParams.env_ctor raised SystemExit: please set SIM_HOME"
        assert f"sac_collect.py: {said}" in err
        assert f"worker_0: {said}" in out  # in the status line, while it was tried again


def test_a_stop_reaches_a_program_whose_user_code_catches_signals(sandbox):
    run = sandbox.start(STUB_LEARNER="catches signals", STUB_WORKER_0="catches signals")
    sandbox.await_tape(*STARTS[:3])
    time.sleep(0.5)
    began = time.monotonic()
    run.terminate()
    _, err = run.communicate(timeout=60)
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
    _, err = run.communicate(timeout=60)
    assert run.returncode == 74
    assert err.endswith(
        "Stopped, but not saved: the learner was killed at train step 1,396 before it had saved; "
        f"{1_396 - 1_000} train steps are lost. The same command resumes from train step 1,000.\n"
    )


@pytest.mark.slow
def test_a_program_that_ignores_term_is_killed(sandbox):
    run = sandbox.start(**TWO, STUB_WORKER_0="deaf")
    sandbox.await_tape(*STARTS)
    time.sleep(0.5)
    run.terminate()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 143
    assert sandbox.alive() == {}
    assert "worker_1 ended within 20 s; killing them" in err


def test_a_stop_just_after_the_status_was_started_does_not_hang(sandbox):
    path = "tfagents_system/launch/local/train_script.sh"
    script = (sandbox.project / path).read_text()
    assert script.count("\n  reporter=$!\n") == 1
    sandbox.write(path, script.replace("\n  reporter=$!", "\n  kill -TERM $$\n  reporter=$!"))
    assert sandbox.start(**TWO).wait(timeout=60) == 143
    wait_until(lambda: sandbox.alive() == {}, 60, "the end of all processes")
