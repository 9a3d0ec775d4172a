import json
import os

import pytest

from tfagents_system.commands.prune import prune
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.experiment.lock import take_lock


def test_policies_that_are_not_in_the_folder_of_a_run_stay(tmp_path):
    paths = ExperimentPaths(tmp_path)
    for train_step in range(3):
        paths.policy_checkpoint(train_step).mkdir(parents=True)
    with pytest.raises(ConfigError, match="has no provenance.json"):
        prune(tmp_path, keep_policies=1)
    assert len(paths.policy_checkpoints()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["policies"]


def test_a_dry_run_needs_no_lock_and_writes_nothing(tmp_path, capsys):
    paths = ExperimentPaths(tmp_path)
    for train_step in range(2):
        paths.policy_checkpoint(train_step).mkdir(parents=True)
    paths.provenance.write_text(json.dumps({"seed": 1}))
    holder = take_lock(paths.lock)
    try:
        with pytest.raises(ConfigError, match="is in use by another run"):
            prune(tmp_path, keep_policies=1)
        before = paths.lock.read_bytes()
        prune(tmp_path, keep_policies=1, dry_run=True)
    finally:
        os.close(holder)
    assert "policy_checkpoint_0000000000  0 B" in capsys.readouterr().out
    assert len(paths.policy_checkpoints()) == 2 and paths.lock.read_bytes() == before
