"""A replay server that writes into the folder of the test."""

import pytest
from checkpoint_fakes import FakeReplay


@pytest.fixture
def replay(tmp_path):
    return FakeReplay(tmp_path / "checkpoints" / ".reverb")
