"""The learner of an offline run, which draws all of each minibatch from demonstrations."""

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import make_experiment, serving

from tfagents_system import sac_collect, sac_train
from tfagents_system.core.errors import EXIT_FINISHED, ConfigError
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.state.running import begin_run
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.learning.policy_export import PolicyExporter
from tfagents_system.services.replay import experience_stats

OFFLINE = "demonstrations, demonstration_share = {demonstrations!r}, 1\n    {more}"
NUM_TRAIN_STEPS = 4 * 10  # of TinyParams


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for kind in ("intra", "inter"):  # refused once TensorFlow has begun to work
        monkeypatch.setattr(
            tf.config.threading, f"set_{kind}_op_parallelism_threads", lambda number: None
        )
    monkeypatch.setattr(PolicyExporter, "_save_models", lambda exporter: None)  # takes long


@pytest.fixture
def replay(tmp_path):
    with serving(tmp_path / "reverb") as running:
        yield running


def record(folder, reward=1.0):
    """Records 3 episodes of 5 env steps."""
    rng, recorder = np.random.default_rng(1), Recorder(folder)
    for _ in range(3):
        recorder.reset(rng.normal(size=2))
        for step in range(1, 6):
            recorder.step(rng.uniform(-1, 1, [1]), rng.normal(size=2), reward, step == 5, False)
    return str(folder)


def offline(folder, demonstrations, more="pass"):
    body = OFFLINE.format(demonstrations=demonstrations, more=more)
    return make_experiment(folder, body)


@pytest.mark.parametrize(
    "more",
    ["pass", "n_step_returns, fresh_samples_per_step = 3, 2", "recurrent, segment_len = True, 3",
     "behavioral_cloning, normalize_observations = {'strength': 0.5, 'steps': 40}, True"],
)  # fmt: skip
def test_the_learner_trains_with_an_empty_replay_buffer(tmp_path, replay, capsys, more):
    data = record(tmp_path / "data")
    paths = offline(tmp_path / "exp", data, more)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    report = read_report(paths, "learner")
    assert report.train_step == NUM_TRAIN_STEPS
    assert report.offline.startswith(f"15 env steps of {data}: no env steps are collected")
    assert report.offline.endswith("sac train --initialize_from logs/exp")
    assert f"Trains offline on {report.offline}.\n" in capsys.readouterr().out
    assert experience_stats(replay.client(), 5) == (0, 0)
    texts = [
        value.tensor.string_val[0].decode()
        for file in (paths.train_summaries / "learner").iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag == "learner/offline"
    ]
    assert texts == [f"Trains offline on {report.offline}."]


def test_a_learner_that_starts_again_meanwhile_does_not_look_at_the_originals(tmp_path, replay):
    data = record(tmp_path / "data")
    paths = offline(tmp_path / "exp", data)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    record(tmp_path / "data")  # three more episodes
    (tmp_path / "data/episode_000009.npz").write_bytes(b"half a copy")
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    assert len(list(paths.demonstrations.iterdir())) == 3
    begin_run(paths)  # as the user's next start does
    with pytest.raises(ConfigError, match=r"episode_000009.npz: damaged"):
        sac_train.train(str(paths.root), replay.address, 2, stop=False)


def test_data_without_rewards_is_refused_in_words(tmp_path, replay):
    data = record(tmp_path / "data", reward=0.0)
    paths = offline(tmp_path / "exp", data)
    with pytest.raises(ConfigError, match=f"All rewards of {data} are 0, .* call sac clone"):
        sac_train.train(str(paths.root), replay.address, 1, stop=False)
    curious = offline(tmp_path / "curious", data, "reward_signals = {'rnd': {}}")
    assert sac_train.train(str(curious.root), replay.address, 1, stop=False) == EXIT_FINISHED


def test_a_worker_that_would_collect_is_refused(tmp_path):
    paths = offline(tmp_path / "exp", record(tmp_path / "data"))
    with pytest.raises(ConfigError, match=r"demonstration_share is 1, .* sac train --offline"):
        sac_collect.collect(str(paths.root), "localhost:1", 0, 60.0, False)
