import pytest

from tfagents_system.commands.prune import prune
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths


def test_policies_that_are_not_in_the_folder_of_a_run_stay(tmp_path):
    paths = ExperimentPaths(tmp_path)
    for train_step in range(3):
        paths.policy_checkpoint(train_step).mkdir(parents=True)
    with pytest.raises(ConfigError, match="has no provenance.json"):
        prune(tmp_path, keep_policies=1)
    assert len(paths.policy_checkpoints()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["policies"]
