import pathlib
import shlex
import subprocess
import sys
import time

import pytest

from tfagents_system.core.process.processes import MARK_VARIABLE
from tfagents_system.core.waiting import wait_until

ROOT = pathlib.Path(__file__).parents[3]
PREAMBLE = """
import os, signal
from tfagents_system.core.errors import ConfigError, StorageError, SupersededError
from tfagents_system.core.programs.program import run_program
"""


def run(tmp_path, main, reports_to_supervisor=True, blank=None, mark=None):
    """Runs a program with this `main`; returns (exit code, output, error output, code file)."""
    code_file = tmp_path / "exit_code"
    if blank is not None:
        code_file.write_text(blank)
    script = tmp_path / "my_program.py"
    script.write_text(PREAMBLE + main + "\nrun_program(main, [__file__])\n")
    environ = {"PYTHONPATH": str(ROOT)}
    if reports_to_supervisor:
        environ["SERVICE_EXIT_CODE_FILE"] = str(code_file)
    if mark:
        environ[MARK_VARIABLE] = mark
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, timeout=60
    )
    code = code_file.read_text() if code_file.exists() else None
    return done.returncode, done.stdout, done.stderr, code


@pytest.mark.parametrize("code", [0, 143])
def test_code_of_main_is_the_exit_code_and_reported(tmp_path, code):
    main = f"def main(*, stop):\n    print('worked', end='')\n    return {code}"
    assert run(tmp_path, main) == (code, "worked", "", f"{code}\n")


def test_code_is_written_over_the_blank_of_the_supervisor(tmp_path):
    main = "def main(*, stop):\n    return 0"
    assert run(tmp_path, main, blank="\n\n\n\n") == (0, "", "", "0\n\n\n")


def test_config_error_is_one_line_and_exit_code_78(tmp_path):
    main = "def main(*, stop):\n    raise ConfigError('x is 3; expected 4.')"
    assert run(tmp_path, main) == (78, "", "my_program.py: x is 3; expected 4.\n", "78\n")


def test_a_file_of_the_user_s_is_one_line_but_a_traceback_in_a_run_s_log(tmp_path):
    main = "def main(*, stop):\n    open('/nowhere/arm.csv')"
    line = "my_program.py: /nowhere/arm.csv: No such file or directory.\n"
    assert run(tmp_path, main, reports_to_supervisor=False) == (78, "", line, None)
    code, _, err, _ = run(tmp_path, main)
    assert code == 1 and err.startswith("Traceback") and "FileNotFoundError" in err


def test_superseded_is_one_line_and_exit_code_75(tmp_path):
    main = "def main(*, stop):\n    raise SupersededError('superseded by number 2')"
    assert run(tmp_path, main) == (75, "", "my_program.py: superseded by number 2\n", "75\n")


def test_storage_error_is_one_line_and_exit_code_74(tmp_path):
    main = "def main(*, stop):\n    raise StorageError('not saved: no disk')"
    assert run(tmp_path, main) == (74, "", "my_program.py: not saved: no disk\n", "74\n")


def test_other_exception_shows_its_traceback_and_exits_with_1(tmp_path):
    code, _, errors, reported = run(tmp_path, "def main(*, stop):\n    return 1 // 0")
    assert (code, reported) == (1, "1\n")
    assert errors.startswith("Traceback")
    assert errors.endswith("ZeroDivisionError: integer division or modulo by zero\n")


def test_without_a_supervisor_nothing_is_reported(tmp_path):
    main = "def main(*, stop):\n    return 0"
    assert run(tmp_path, main, reports_to_supervisor=False) == (0, "", "", None)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_sets_the_stop_flag_and_a_second_one_changes_nothing(tmp_path, name):
    main = f"""
def main(*, stop):
    print(bool(stop))
    for _ in range(2):
        os.kill(os.getpid(), signal.{name})
        print(bool(stop))
    return 143
"""
    assert run(tmp_path, main) == (143, "False\nTrue\nTrue\n", "", "143\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_a_program_of_no_run_wherever_it_is(tmp_path, name):
    main = f"""
import time

def main(*, stop):
    try:
        os.kill(os.getpid(), signal.{name})
        print(bool(stop), flush=True)
        with GUEST.visit("Arm.step"):
            os.kill(os.getpid(), signal.{name})
            time.sleep(50)
    finally:
        print("cleaned up", flush=True)
"""
    preamble = "from tfagents_system.core.process.guest import GUEST\n"
    done = run(tmp_path, preamble + main, reports_to_supervisor=False)
    assert done == (143, "True\ncleaned up\n", "", None)


IGNORES_SIGNALS = """
import pathlib, time

def main(*, stop):
    pathlib.Path("begun").touch()
    deadline = time.monotonic() + 30
    while not stop and time.monotonic() < deadline:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(0.01)
    return 143 if stop else 0
"""


def test_a_stop_of_the_supervisor_is_heard_although_every_signal_is_ignored(tmp_path):
    service = tmp_path / "service"
    service.mkdir()
    (tmp_path / "my_program.py").write_text(
        PREAMBLE + IGNORES_SIGNALS + "\nrun_program(main, [__file__])\n"
    )
    script = service / "run"
    script.write_text(
        f"#!/bin/sh\ncd {shlex.quote(str(tmp_path))} || exit 1\n"
        f"PYTHONPATH={shlex.quote(str(ROOT))} SERVICE_EXIT_CODE_FILE=service/exit_code "
        f"exec {shlex.quote(sys.executable)} my_program.py\n"
    )
    script.chmod(0o755)
    supervise = subprocess.Popen(["supervise", str(service)])
    try:
        wait_until((tmp_path / "begun").exists, 60, "the program's start")
        assert (service / "exit_code").read_text().strip() == ""
        subprocess.run(["svc", "-dx", str(service)], check=True, timeout=10)
        assert supervise.wait(timeout=10) == 0
        assert (service / "exit_code").read_text() == "143\n"
    finally:
        supervise.kill()


def test_program_ends_although_a_thread_of_it_goes_on(tmp_path):
    main = """
import threading

def main(*, stop):
    threading.Thread(target=threading.Event().wait).start()
    return 0
"""
    assert run(tmp_path, main) == (0, "", "", "0\n")


def test_only_the_thread_that_prefers_response_leaves_batch_scheduling(tmp_path):
    main = """
import threading
from tfagents_system.core.programs.program import prefer_response

def policy(thread_id):
    return {os.SCHED_BATCH: "batch", os.SCHED_OTHER: "other"}[os.sched_getscheduler(thread_id)]

def main(*, stop):
    is_done = threading.Event()
    sender = threading.Thread(target=is_done.wait)
    sender.start()
    print(policy(0), policy(sender.native_id), end=" ")
    prefer_response()
    print(policy(0), policy(sender.native_id), end="")
    is_done.set()
    return 0
"""
    assert run(tmp_path, main)[:2] == (0, "batch batch other batch")


@pytest.mark.parametrize("mark", [None, "b2/worker_0"])
def test_what_user_code_has_started_ends_with_the_program(tmp_path, mark):
    """Otherwise `run` waits for the end of its output, which the daemon holds open."""
    main = """def main(*, stop):
    os.system("setsid sleep 50 &")
    return 0"""
    began = time.monotonic()
    assert run(tmp_path, main, mark is not None, mark=mark)[0] == 0
    assert time.monotonic() - began < 40


def test_the_log_of_a_program_of_a_run_has_a_limit(tmp_path):
    script, log = tmp_path / "my_program.py", tmp_path / "worker_0.log"
    script.write_text(
        PREAMBLE + "import time\n"
        "from tfagents_system.core.state import log_limit\n"
        "log_limit.MAX_BYTES, log_limit.PERIOD_SECS = 1000, 0.01\n"
        "def main(*, stop):\n"
        "    print('a' * 1001, flush=True)\n"
        "    while os.fstat(1).st_size > 1000: time.sleep(0.01)\n"
        "    os.system('echo of a child')\n"
        "    return 0\n"
        "run_program(main, [__file__])\n"
    )
    environ = {"PYTHONPATH": str(ROOT), "SERVICE_EXIT_CODE_FILE": str(tmp_path / "exit_code")}
    with log.open("ab") as output:
        subprocess.run([sys.executable, script], env=environ, stdout=output, timeout=60, check=True)
    assert log.with_name("worker_0.log.1").read_text() == "a" * 999 + "\n"
    assert sorted(log.read_text().splitlines()) == [
        "This log was longer than 1.0 kB; its end is in worker_0.log.1.",
        "of a child",
    ]
