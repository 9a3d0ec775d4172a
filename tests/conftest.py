"""Sets up all tests, spreads them over processes, and counts those of the fault table."""

import faulthandler
import gc
import os
import pathlib
import random
import signal
import sys

import hypothesis
import numpy as np
import pytest
from faults.ledger import Ledger
from xdist.scheduler import LoadFileScheduling

from tfagents_system.core.process import reporting
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.kernels import build

# The same examples every time, and no failure because the machine is busy.
hypothesis.settings.load_profile("ci")

# A script's background jobs ignore SIGINT, those of nohup SIGHUP, and so would all programs that
# the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
HANDLED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)


def pytest_addoption(parser):
    group = parser.getgroup("faults")
    group.addoption("--faults", action="store_true", help="run the fault table, and nothing else")
    group.addoption("--repeats", type=int, default=20, help="kills of each kind (default 20)")
    group.addoption("--soak-minutes", type=float, default=120.0, help="length of the soak")
    group.addoption("--ledger", type=pathlib.Path, help="CSV file for the counted results")


@pytest.fixture(scope="session", autouse=True)
def compiled_ops():
    """Builds the compiled ops, where the CPU has their instructions: 0.1 s if they are there."""
    assert build.main() == 0


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_collected():
    """Spares garbage collections the millions of objects that TensorFlow keeps of earlier files."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left():
    """Disarms a test's watchdog, which would end this process later, and forgets its run."""
    yield
    faulthandler.cancel_dump_traceback_later()
    FIRST_EPISODE.set_run(None)


@pytest.fixture(autouse=True)
def nothing_is_put_back(monkeypatch):
    """Forgets what a test's command took for its own, such as the working directory."""
    monkeypatch.setattr(GUEST, "_ours", {})
    monkeypatch.setattr(GUEST, "_theirs", {})


@pytest.fixture(autouse=True)
def seeded():
    """Seeds all generators, so that a test has the same numbers alone and among others."""
    random.seed(0)
    np.random.seed(0)
    if tensorflow := sys.modules.get("tensorflow"):
        tensorflow.random.set_seed(0)


@pytest.fixture(autouse=True)
def nothing_is_set():
    """Forgets the environment variables that a command has set in this process."""
    environ = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(environ)


@pytest.fixture(autouse=True)
def nothing_is_handled():
    """Puts back the handlers of signals that a command has set in this process."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def no_seed_of_keras():
    """Forgets the seed of `keras.utils.set_random_seed`, which would outlast a test's."""
    yield
    if backend := sys.modules.get("keras.src.backend"):
        backend._SEED_GENERATOR.generator = None


@pytest.fixture(autouse=True)
def nothing_reported(monkeypatch):
    """Forgets what other tests of this process have reported, for a failure is said once."""
    monkeypatch.setattr(reporting, "_said", set())
    monkeypatch.setattr(reporting, "_num_failed", 0)


# Tests that start real runs: of programs that share the CPUs, with steps that take their time.
RUNS = ("tests/system/", "tests/learning_curves/", "tests/slurm/", "tests/ray_cluster/")
# The files that last longest: last, one of them would keep a process busy while the others wait.
LONG = ("tests/test_", "tests/shell/", "tests/programs/", "tests/commands/")


class RunsInTurn(LoadFileScheduling):
    """Gives whole files to the processes, and all of RUNS to one, so that runs never overlap."""

    def _split_scope(self, nodeid):
        return "runs" if nodeid.startswith(RUNS) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config, log):
    return RunsInTurn(config, log)


def pytest_xdist_auto_num_workers(config):
    """A process per CPU, as far as it helps; a single one counts faults and takes times."""
    if config.getoption("--faults") or not config.option.markexpr.startswith("not"):
        return 0
    return min(len(os.sched_getaffinity(0)), 4)


def pytest_collection_modifyitems(items):
    """Runs and other long files first; each file goes to whatever process is free."""
    items.sort(
        key=lambda item: (not item.nodeid.startswith(RUNS), not item.nodeid.startswith(LONG))
    )


LEDGER = pytest.StashKey[Ledger]()


def pytest_configure(config):
    config.stash[LEDGER] = Ledger(config.getoption("--ledger"))
    if config.getoption("--faults"):
        config.option.markexpr = "faults or fault_row"


@pytest.fixture
def ledger(request):
    return request.config.stash[LEDGER]


def pytest_runtest_makereport(item, call):
    """Counts a test of the fault table that does not count for itself, and every one that fails."""
    row = item.get_closest_marker("fault_row")
    is_counted = call.when == "call" and (row or item.get_closest_marker("faults"))
    if is_counted and ("ledger" not in item.fixturenames or call.excinfo):
        what = row.args[0] if row else item.path.stem.removeprefix("test_").replace("_", " ")
        fault = item.name.removeprefix("test_").replace("_", " ")
        item.config.stash[LEDGER].add(what, fault, passed=call.excinfo is None)


def pytest_terminal_summary(terminalreporter, config):
    ledger = config.stash[LEDGER]
    if config.getoption("--faults"):
        terminalreporter.section("counted")
        for line in ledger.table():
            terminalreporter.write_line(line)
