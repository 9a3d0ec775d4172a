import numpy as np

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning.divergence import (
    MOST_REMOVED,
    DivergedError,
    removes_cause,
    suspicious_samples,
)

ZEROS = np.zeros([4, 3], np.float32)


def minibatch(reward, observation=ZEROS):
    return {"observation": observation, "reward": np.array(reward, np.float32),
            "picture": np.full([len(reward), 2], 255, np.uint8)}  # fmt: skip


def test_samples_that_alone_make_a_loss_diverge_are_suspicious():
    observation = ZEROS.copy()
    observation[3, 2] = -1e30
    found = suspicious_samples(minibatch([9.9e9, 1e10, np.nan, -np.inf], observation))
    assert found == {1: "reward 1e+10", 2: "reward nan", 3: "observation -1e+30"}
    assert suspicious_samples(minibatch([0.0, -5.0, 9e9, 1.0])) == {}


def test_what_many_samples_have_is_no_exception():
    assert len(suspicious_samples({"reward": np.full(MOST_REMOVED, 1e12)})) == MOST_REMOVED
    assert suspicious_samples({"reward": np.full(MOST_REMOVED + 1, 1e12)}) == {}


def removes(tmp_path, discard_items, keys=(7, 8)):
    error = DivergedError({"loss": 1e21}, minibatch([1e30, 0.0, 1e12, 0.0]), keys)
    return removes_cause(error, 5, ExperimentPaths(tmp_path), discard_items)


def test_items_are_removed_by_their_keys_and_named(tmp_path, capsys):
    removed = []
    assert removes(tmp_path, lambda keys: removed.extend(keys) or 6)
    assert removed == [7, 8]
    said = capsys.readouterr().out
    assert "training diverged at train step 5: loss 1e+21." in said
    assert "6 items of the replay buffer are removed for good" in said
    assert "the minibatch has reward 1e+30, reward 1e+12." in said
    assert list(np.load(ExperimentPaths(tmp_path).diverged(5))["reward"]) == [
        np.float32(1e30), 0, np.float32(1e12), 0,
    ]  # fmt: skip


def test_a_server_that_is_away_ends_training_as_before(tmp_path, capsys):
    def away(keys):
        raise TimeoutError("no answer")

    assert not removes(tmp_path, away)
    assert not removes(tmp_path, None)
    assert not removes(tmp_path, len, keys=())
    said = capsys.readouterr().err
    assert said.count("Nothing since the last checkpoint was saved.") == 3
    assert "could not be removed from the replay buffer: TimeoutError('no answer')" in said
