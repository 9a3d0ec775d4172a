import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, time
from tfagents_system.core.process.watchdog import Watchdog

watchdog = Watchdog(float(sys.argv[1]))

def hang():
    exec(sys.argv[2])

hang()
print("alive")
"""


def run(timeout_secs, body):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(timeout_secs), body],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip


@pytest.mark.parametrize(
    "hang", ["time.sleep(20)", "sum(range(10**12))"]
)  # the second holds the GIL
def test_a_program_that_hangs_ends_and_shows_where(hang):
    began = time.monotonic()
    result = run(1.0, f"watchdog.feed(); {hang}")
    assert time.monotonic() - began < 10
    assert result.returncode == 1
    assert "Timeout (0:00:01)!" in result.stderr
    assert "in hang" in result.stderr


def test_a_program_that_is_fed_or_rests_lives_on():
    feeds = "for _ in range(70): watchdog.feed(); time.sleep(0.05)"
    assert run(3.0, f"exec({feeds!r}); watchdog.rest(); time.sleep(3.5)").stdout == "alive\n"
