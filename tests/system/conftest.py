"""What the tests of whole runs share."""

import shutil

import pytest
from commands.test_train import sac
from system.tiny_run import TINY


@pytest.fixture(scope="session")
def trained_cart(tmp_path_factory):
    """A folder in which `sac` has made a project `cart` and trained it, and what it said then.

    For reading and copying only.
    """
    folder = tmp_path_factory.mktemp("trained")
    assert sac(folder, "new", "cart")[0] == 0
    code, _, err = sac(folder, "train", "cart_variables.sh", "--set", *TINY, timeout=150)
    assert code == 0, err
    shutil.rmtree(folder / "logs/cart/service")  # its named pipes cannot be copied
    return folder, err
