import pytest
from shell.setup.sandbox import OTHER_PYTHON, PYTHON, UV, Sandbox


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


@pytest.fixture
def ready(sandbox):
    """With a usable Python and supervise."""
    sandbox.stub("python3.11", PYTHON)
    sandbox.stub("supervise", "exit 0")
    return sandbox


@pytest.fixture
def newer(sandbox):
    """With no Python but one that is too new, and a uv that is not on PATH."""
    sandbox.stub("supervise", "exit 0")
    sandbox.stub("python3", OTHER_PYTHON)
    sandbox.stub("python", PYTHON, sandbox.stubs)
    sandbox.stub("uv", UV, sandbox.stubs)
    return sandbox
