import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from shell.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: pathlib.Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path / "my project")
    yield sandbox
    for pid in sandbox.alive():
        os.kill(pid, signal.SIGKILL)
    for run in sandbox.started:
        run.communicate(timeout=60)
