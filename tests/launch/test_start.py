"""Starting runs one after another."""

import os
import signal
import time

import pytest

from tfagents_system.launch import start

CHILD = """
import os, signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, os.environ["NAME"])
"""


def test_each_of_several_runs_can_be_stopped_and_so_can_the_caller(tmp_path, monkeypatch, capfd):
    (tmp_path / "noting.py").write_text(CHILD)
    monkeypatch.setattr(start, "MODULE", "noting")
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for name in ("first", "second"):
        assert start.run_apart(environ | {"NAME": name}) == 0
    assert capfd.readouterr().out == "True first\nTrue second\n"
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
