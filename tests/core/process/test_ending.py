"""Commands end as programs do, whatever user code has left and whoever reads their output."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
SCRIPT = """
import atexit, os, signal, sys, threading
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.programs.program import run_program

def work():
    {body}

if {as_program}:
    def main(*, stop):
        work()
        return 0
    run_program(main, ["film.py"])
else:
    def main():
        work()
    run_tool(main, ["film.py"])
"""


def run(body, as_program, **options):
    script = SCRIPT.format(body=body, as_program=as_program)
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, timeout=30, text=True, stderr=subprocess.PIPE,
        stdout=options.get("stdout", subprocess.PIPE),
    )  # fmt: skip


@pytest.mark.parametrize("as_program", [False, True])
def test_a_thread_of_user_code_is_not_waited_for_and_its_handlers_run(as_program):
    done = run(
        "with GUEST.visit('Arm()'):\n"
        "        threading.Thread(target=threading.Event().wait).start()\n"
        "        atexit.register(print, 'simulator ended')\n"
        "    print('worked')",
        as_program,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\nsimulator ended\n", "")


@pytest.mark.parametrize("as_program", [False, True])
def test_a_reader_that_has_seen_enough_ends_a_command_quietly(as_program):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as nobody:
        done = run("[print(i) for i in range(10**5)]", as_program, stdout=nobody)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("as_program", [False, True])
def test_a_broken_pipe_of_user_code_is_its_error(as_program):
    done = run(
        "r, w = os.pipe(); os.close(r)\n"
        "    with GUEST.visit('Arm.step'):\n"
        "        os.write(w, b'go')",
        as_program,
    )
    assert done.returncode == (69 if as_program else 1)  # before the first env step
    last = done.stderr.splitlines()[-1]
    assert last.startswith("film.py: Arm.step raised BrokenPipeError: [Errno 32] Broken pipe")


@pytest.mark.parametrize("as_program", [False, True])
def test_an_exit_that_user_code_asks_for_is_its_error(as_program):
    done = run("with GUEST.visit('Arm()'): sys.exit(0)", as_program)
    assert done.returncode == (69 if as_program else 1)
    assert done.stderr.splitlines()[-1].startswith("film.py: Arm() raised SystemExit: exit code 0")


@pytest.mark.parametrize("kept_nothing, code", [(True, 69), (False, 1)])
def test_a_program_of_which_no_env_step_was_of_use_has_not_begun(kept_nothing, code):
    done = run(
        "from tfagents_system.core.process.guest import UserCodeError\n"
        "    GUEST.note_step()\n"
        "    error = UserCodeError('all were rejected', 'NaN')\n"
        f"    error.kept_nothing = {kept_nothing}\n"
        "    raise error",
        as_program=True,
    )
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == "film.py: all were rejected"


def test_a_stop_is_heard_although_user_code_handles_signals_just_now():
    script = """
import os, signal
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.programs.program import StopFlag
stop = StopFlag()
GUEST.remember()
with GUEST.visit("Arm()"):
    signal.signal(signal.SIGTERM, lambda *_: print("swallowed"))
    os.kill(os.getpid(), signal.SIGTERM)
print(bool(stop))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, timeout=30, text=True, capture_output=True
    )
    assert done.stdout == "swallowed\nTrue\n"
