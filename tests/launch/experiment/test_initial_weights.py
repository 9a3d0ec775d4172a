import errno
import shutil

import pytest
from fakes import UNRIVALLED

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.best_policies import EvaluatedPolicy, add_best_policy
from tfagents_system.core.state.generations import generation_dir, publish_generation
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.experiment.initial_weights import InitialWeights


@pytest.fixture
def paths(tmp_path):
    """An experiment with two generations, a policy and a best policy."""
    paths = ExperimentPaths(tmp_path / "first")
    for train_step in (100, 200):
        unfinished = paths.checkpoints / "unfinished"
        for name in ("learner/state.index", "replay/items"):
            (unfinished / name).parent.mkdir(parents=True)
            (unfinished / name).write_text(f"{name} {train_step}")
        publish_generation(unfinished, paths.checkpoints, train_step, {}, UNRIVALLED)
    paths.policy_checkpoint(150).mkdir(parents=True)
    unfinished = paths.best_policies / ".new"
    unfinished.mkdir(parents=True)
    best = EvaluatedPolicy(paths.best_policies / "policy_7", 7, 70, 1.0, 2)
    add_best_policy(paths, unfinished, best)
    return paths


def test_the_newest_generation_is_meant_unless_another_checkpoint_is_named(paths):
    def found(text):
        return InitialWeights.find(text).checkpoint

    root = paths.root
    assert found(str(root)) == generation_dir(paths.checkpoints, 200)
    assert found(f"{root}:0000000100") == generation_dir(paths.checkpoints, 100)
    assert found(f"{root}:policy_checkpoint_0000000150") == paths.policy_checkpoint(150)
    assert found(f"{root}:best") == paths.best_policies / "policy_7"
    odd = root.with_name("a:b")
    root.rename(odd)
    assert found(str(odd)) == generation_dir(ExperimentPaths(odd).checkpoints, 200)


def test_a_damaged_newest_generation_is_passed_over_and_refused_by_its_name(paths):
    newest = generation_dir(paths.checkpoints, 200)
    (newest / "learner/state.index").write_text("cut")
    assert InitialWeights.find(str(paths.root)).checkpoint.name == "0000000100"
    with pytest.raises(ConfigError, match="the checkpoint is damaged: .*differs from its checksum"):
        InitialWeights.find(f"{paths.root}:{newest.name}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}:bset", "SAC_INITIALIZE_FROM is .* has no checkpoint 'bset'. Did you mean best"),
        ("{}:7", "There are: 0000000200, 0000000100, policy_checkpoint_0000000150, best."),
        ("{}x", "no such experiment folder. Did you mean .*first"),
        ("{}x:best", "no such experiment folder"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(paths, text, message):
    with pytest.raises(ConfigError, match=message):
        InitialWeights.find(text.format(paths.root))


def test_an_experiment_with_policies_alone_must_name_one(tmp_path):
    ExperimentPaths(tmp_path).policy_checkpoint(5).mkdir(parents=True)
    with pytest.raises(ConfigError, match="has no checkpoint. For the actor alone, name a policy"):
        InitialWeights.find(str(tmp_path))


def test_a_clone_without_its_policy_is_refused(tmp_path):
    paths = ExperimentPaths(tmp_path)
    paths.policy_checkpoint(5).mkdir(parents=True)
    paths.clone.write_text("{}")
    paths.episodes.mkdir()
    assert InitialWeights.find(str(tmp_path)).checkpoint == paths.policy_checkpoint(5)
    paths.policy_checkpoint(5).rmdir()
    with pytest.raises(ConfigError, match="SAC_INITIALIZE_FROM is .* has no checkpoint"):
        InitialWeights.find(str(tmp_path))


def test_a_copy_has_no_replay_buffer_and_says_if_the_checkpoint_is_gone(paths, tmp_path):
    weights = InitialWeights.find(str(paths.root))
    weights.copy_to(tmp_path / "copy")
    names = sorted(str(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*"))
    assert names == ["learner", "learner/state.index", "manifest.json"]
    generation_dir(paths.checkpoints, 200).rename(paths.root / "dropped")
    with pytest.raises(ConfigError, match="changed while it was read"):
        weights.copy_to(tmp_path / "second")


def test_a_disk_that_is_full_is_told_from_a_checkpoint_that_was_dropped(
    paths, tmp_path, monkeypatch
):
    weights = InitialWeights.find(str(paths.root))

    def fail(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", fail)
        with pytest.raises(OSError, match="No space left") as caught:
            weights.copy_to(tmp_path / "copy")
    assert caught.value.errno == errno.ENOSPC
    shutil.rmtree(weights.checkpoint)
    with pytest.raises(ConfigError, match="changed while it was read"):
        weights.copy_to(tmp_path / "other")
