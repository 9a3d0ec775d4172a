"""The progress bar, in a real terminal and outside of one."""

import os
import pty
import re
import subprocess
import sys
import threading

PROGRAM = """
import time
from tfagents_system.terminal.progress import progress_bar

with progress_bar("reading", "drawing") as begin:
    time.sleep(0.3)
    begin("drawing")
    time.sleep(0.3)
print("done")
"""


def run(**files) -> bytes:
    environ = os.environ | {"TERM": "xterm"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environ, timeout=60, check=True, **files).stdout


def test_a_terminal_shows_each_step_and_nothing_at_the_end():
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read():
        try:
            while block := os.read(ours, 1000):
                seen.extend(block)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert run(stdout=subprocess.PIPE, stderr=theirs) == b"done\n"
    os.close(theirs)
    reader.join(timeout=10)
    os.close(ours)
    text = seen.decode()
    assert re.search("reading.*drawing", text, re.DOTALL)
    assert text.endswith("\x1b[2K")  # the line is erased


def test_without_a_terminal_nothing_is_shown():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
