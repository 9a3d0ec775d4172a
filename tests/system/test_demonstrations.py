"""Runs that learn from demonstrations."""

import json
import signal

import numpy as np
import pytest
import tensorflow as tf
from commands.test_train import sac
from system.test_deterministic import result_of, start
from system.tiny_run import TinyRun

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.core.state.generations import read_manifests
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.demonstrations.episode_file import digest
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.recorder import Recorder

pytestmark = pytest.mark.system


def record(folder, seed, num_episodes=3, size=2):
    rng, recorder = np.random.default_rng(seed), Recorder(folder)
    for _ in range(num_episodes):
        recorder.reset(rng.normal(size=size))
        for step in range(1, 11):
            recorder.step(rng.uniform(-1, 1, [1]), rng.normal(size=size), 1.0, False, step == 10)


@pytest.fixture
def run(tmp_path):
    record(tmp_path / "demos", seed=1)
    tiny = TinyRun(tmp_path, "\n    demonstrations = 'demos'\n    num_iter = 20\n")
    yield tiny
    tiny.end()


def test_a_run_clones_demonstrations_that_are_in_no_minibatch(tmp_path):
    record(tmp_path / "demos", seed=1)
    cloning = "behavioral_cloning = {'strength': 0.5, 'steps': 100}"
    tiny = TinyRun(
        tmp_path,
        "\n    demonstrations = 'demos'\n    demonstration_share = 0\n    num_iter = 20\n"
        f"    log_period_itrs = 1\n    {cloning}\n",
    )
    assert tiny.await_end(tiny.start(), 180) == 0
    tiny.end()
    files = tiny.paths.train_summaries.rglob("events*")
    losses = {
        event.step: value.simple_value
        for file in files
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag == "learner/cloning_loss"
    }
    assert all((loss > 0) == (step < 100 + 20) for step, loss in losses.items())
    assert min(losses) < 100 < 120 < max(losses)


def test_a_run_keeps_its_demonstrations_when_the_originals_move_and_refuses_others(run):
    expected = digest(read_demonstrations(run.folder / "demos"))
    run.set_pace(0.05)  # so that it is not finished before it is stopped
    process = run.start()
    run.await_train_step(100)
    process.send_signal(signal.SIGTERM)
    assert run.await_end(process, 120) == 143
    assert digest(read_demonstrations(run.paths.demonstrations)) == expected
    assert json.loads(run.paths.run_spec.read_text())["demonstrations"] == expected
    log = run.paths.stdout("learner").read_text()
    assert "Demonstrations: 3 episodes, 30 env steps, 50% of each minibatch." in log

    (run.folder / "demos").rename(run.folder / "moved")
    record(run.folder / "demos", seed=2)
    assert run.await_end(run.start(), 120) == EXIT_CONFIG
    log = run.paths.stdout("learner").read_text()
    assert "now has other episodes than those with which this run began" in log

    (run.folder / "demos").rename(run.folder / "others")
    (run.folder / "pace").unlink()
    assert run.await_end(run.start(), 180) == 0
    assert run.restored_steps()[-1] >= 100
    assert json.loads(run.paths.run_spec.read_text())["demonstrations"] == expected


def test_a_run_learns_from_the_replay_buffer_of_an_old_experiment(tmp_path):
    old = TinyRun(tmp_path, "\n    num_iter = 3\n    checkpoint_period_itrs = 1\n")
    variables = (tmp_path / "variables.sh").read_text().replace("SAC_EXP_NAME=tiny\n", "")
    (tmp_path / "another.sh").write_text(variables)
    command = ["train", "../another.sh", "--set", "num_iter=1", "--name"]
    code, _, err = sac(old.project, *command, "second", "--replay-from=logs/tyni")
    assert code == EXIT_CONFIG and "logs/tyni: no such experiment folder" in err
    try:
        assert old.await_end(old.start(), 180) == 0
        code, out, err = sac(old.project, *command, "second", "--replay-from=logs/tiny",
                             timeout=180)  # fmt: skip
        assert code == 0, out + err
        new = ExperimentPaths(old.project / "logs/second")
        episodes = read_demonstrations(new.demonstrations)
        assert digest(episodes) == digest(read_demonstrations(old.paths.root))
        (newest, *_) = read_manifests(old.paths.checkpoints)
        ((first, last),) = newest["stored"]["ranges"]
        num_blocks = (last - first + 1) // 5  # of 4 pairs of rows; the next has the fifth row, too
        num_pairs = sum(episode.length for episode in episodes) + len(episodes) - 1
        assert num_pairs in (4 * num_blocks, 4 * num_blocks - 1)  # it may end with a FIRST row
        assert {episode.length for episode in episodes[:-1]} == {10} and len(episodes) > 3
        log = new.stdout("learner").read_text()
        assert f"Demonstrations: {len(episodes)} episodes" in log
        assert "50% of each minibatch" in log

        (tmp_path / "params.py").write_text(
            (tmp_path / "params.py").read_text().replace("array_spec.BoundedArraySpec([1]",
                                                         "array_spec.BoundedArraySpec([2]")
        )  # fmt: skip
        code, _, err = sac(old.project, *command, "third", "--replay-from=logs/tiny",
                           timeout=180)  # fmt: skip
        assert code == EXIT_CONFIG
        expected = "logs/tiny, episode 0: action has shape [1], in the environment [2]"
        assert expected in err
        assert not (old.project / "logs/third").exists()
    finally:
        old.end()


def test_what_cannot_be_read_is_refused_before_anything_starts_and_what_does_not_fit_by_words(run):
    (file, *_) = (run.folder / "demos").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert run.await_end(run.start(), 60) == EXIT_CONFIG
    assert f"{file}: damaged" in run.output
    assert not run.paths.root.exists()
    file.write_bytes(whole)
    record(run.folder / "demos", seed=1, num_episodes=1, size=3)
    assert run.await_end(run.start(), 120) == EXIT_CONFIG
    assert "observation has shape [3], in the environment [2]" in run.output
    assert not run.paths.root.exists()


def test_deterministic_runs_repeat_bit_for_bit(tmp_path):
    record(tmp_path / "demos", seed=1)
    results = []
    for name, share in (("first", 0.5), ("second", 0.5), ("less", 0.25)):
        bindings = {"demonstrations": str(tmp_path / "demos"), "demonstration_share": share}
        texts = [f"TrainParams.{setting} = {value!r}" for setting, value in bindings.items()]
        run, process = start(tmp_path / name, 1, SAC_GIN_BINDINGS="\n".join(texts))
        try:
            assert run.await_end(process, timeout_secs=120) == 0
        finally:
            run.end()
        results.append(result_of(run))
    assert results[0] == results[1]
    assert results[0][1] != results[2][1]
