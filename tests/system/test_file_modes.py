"""Who may read and execute what a run writes."""

import os

import pytest
from system.tiny_run import TinyRun

pytestmark = pytest.mark.system


@pytest.fixture
def finished_run(tmp_path):
    """A run under a umask that leaves nothing to others."""
    run = TinyRun(tmp_path, more_params="\n    num_iter = 4\n    checkpoint_period_itrs = 2\n")
    before = os.umask(0o077)
    try:
        process = run.start()
        assert run.await_end(process, timeout_secs=60) == 0
        yield run
    finally:
        os.umask(before)
        run.end()


def test_files_honour_the_umask_and_none_is_executable(finished_run):
    root = finished_run.paths.root
    paths = [path for path in [root, *root.rglob("*")] if not path.is_symlink()]
    modes = {path.relative_to(root): path.lstat().st_mode for path in paths}
    assert len(modes) > 50
    assert [str(path) for path, mode in modes.items() if mode & 0o077] == []
    executable = {path for path, mode in modes.items() if mode & 0o111 and (root / path).is_file()}
    assert executable == set()  # what supervise executes is a file of the package
