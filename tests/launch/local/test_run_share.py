"""Shares that end before their programs run; what runs is tried on real clusters (tests/slurm)."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import EXIT_STOPPED, EXIT_SUPERSEDED
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until

RUN_SHARE = "from tfagents_system.launch.local import run_share\n"
# Its host hangs, and another one starts the core anew meanwhile.
SUPERSEDED = """
from tfagents_system.core.state.paths import ExperimentPaths
import pathlib
listen = run_share.listen

def hang():
    claims = run_share.Claims(ExperimentPaths(pathlib.Path("logs/e")).incarnations)
    claims.claim(run_share.THE_CORE)
    return listen()

run_share.listen = hang
run_share.run_share("core")
"""
FINISHED = """
from tfagents_system.launch.link import hosts as link
link.FINISHED_SECS = 0.0
run_share.run_share("workers")
"""


class Host:
    """A host without a cluster, whose folder for temporary files is seen."""

    def __init__(self, folder: pathlib.Path, temporary: pathlib.Path):
        self.paths = ExperimentPaths(folder / "logs" / "e")
        self._folder = folder
        self._temporary = temporary

    def start(self, code: str) -> subprocess.Popen:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
        environ = clean | {
            "SAC_EXP_NAME": "e",
            "SAC_PARAMS": str(PROJECT / "tfagents_system/pendulum_params.py"),
            "SAC_CONFIG": str(PROJECT / "config/pendulum.json"),
            "SAC_PRIVATE_NETWORK": "0",
            "PYTHONPATH": str(PROJECT),
            "TMPDIR": str(self._temporary),
        }
        return subprocess.Popen(
            [sys.executable, "-c", RUN_SHARE + code], cwd=self._folder, env=environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def has_folder(self) -> bool:
        return any(self._temporary.glob("sac_*"))


@pytest.fixture
def host(tmp_path):
    # In one with a long name, like pytest's, a share would make no folder: sockets need short ones.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        yield Host(tmp_path, pathlib.Path(temporary))


def test_a_core_that_hung_since_its_claim_publishes_no_link(host):
    core = host.start(SUPERSEDED)
    _, errors = core.communicate(timeout=60)
    assert core.returncode == EXIT_SUPERSEDED, errors
    (message,) = errors.splitlines()
    assert message.startswith(f"share core on {os.uname().nodename}: superseded: ")
    assert host.paths.incarnations.is_dir() and not host.paths.link.exists()
    assert not host.has_folder()


def test_workers_stopped_while_they_wait_for_a_core_leave_nothing(host):
    workers = host.start("run_share.run_share('workers')")
    wait_until(lambda: host.has_folder() or workers.poll() is not None, 120, "the share's folder")
    workers.send_signal(signal.SIGTERM)
    _, errors = workers.communicate(timeout=30)
    assert (workers.returncode, errors) == (EXIT_STOPPED, "")
    assert not host.has_folder()


def test_workers_of_a_run_that_is_finished_have_nothing_to_do(host):
    host.paths.root.mkdir(parents=True)
    host.paths.finished.touch()
    workers = host.start(FINISHED)
    printed, errors = workers.communicate(timeout=60)
    assert (workers.returncode, errors) == (0, "")
    assert f"the run in {host.paths.root} is finished" in printed
    assert not host.has_folder()
