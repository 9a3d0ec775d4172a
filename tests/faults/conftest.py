"""Options, and the ledger in which the tests write down what they counted."""

import pathlib

import pytest
from faults.ledger import Ledger


def pytest_addoption(parser):
    group = parser.getgroup("faults")
    group.addoption("--repeats", type=int, default=20, help="kills of each kind (default 20)")
    group.addoption("--soak-minutes", type=float, default=120.0, help="length of the soak")
    group.addoption("--ledger", type=pathlib.Path, help="CSV file for the counted results")


LEDGER = pytest.StashKey[Ledger]()


def pytest_configure(config):
    config.stash[LEDGER] = Ledger(config.getoption("--ledger"))


@pytest.fixture
def ledger(request):
    return request.config.stash[LEDGER]


def pytest_runtest_makereport(item, call):
    """Counts a test that does not count for itself, and every one that fails."""
    if call.when == "call" and ("ledger" not in item.fixturenames or call.excinfo):
        what = item.path.stem.removeprefix("test_").replace("_", " ")
        fault = item.name.removeprefix("test_").replace("_", " ")
        item.config.stash[LEDGER].add(what, fault, passed=call.excinfo is None)


def pytest_terminal_summary(terminalreporter, config):
    ledger = config.stash[LEDGER]
    if ledger.rows:
        terminalreporter.section("counted")
        for line in ledger.table():
            terminalreporter.write_line(line)
