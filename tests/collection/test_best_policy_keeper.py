import json
import statistics

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.collection.best_policy_keeper import BestPolicyKeeper
from tfagents_system.collection.episode_log import EpisodeLog
from tfagents_system.collection.rollouts import Episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.callbacks import Callbacks
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.end_request import requested_end
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.evaluation.saved_experiment import find_checkpoint
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.services.versions import PolicyVersion
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    n_eval_episodes = 3
    num_steps_per_iter = 10

    def env_ctor(self, *args, **kwargs):
        raise AssertionError("nothing is run here")


@pytest.fixture
def run(tmp_path):
    params = Params({"horizon": 3})
    return Run(ExperimentPaths(tmp_path), params, Curriculum.from_config({}, "test"), 0)


def evaluate(run, train_step, returns, worker_ids=(0, 1), success=None, numbers=None):
    """Workers in turn record an episode each, and keep the policy if it is the best."""
    version = PolicyVersion(train_step, [np.float32([train_step])])
    for index, episode_return in enumerate(returns):
        worker_id = worker_ids[index % len(worker_ids)]
        log = EpisodeLog(run.paths.episodes, "eval", worker_id)
        episode = Episode(episode_return, 3, success, True, numbers=numbers or {})
        log.append(episode, 0, train_step, 0)
        callbacks = Callbacks(run.params.callbacks, f"worker_{worker_id}", run.paths)
        BestPolicyKeeper(run, [tf.Variable([0.0])], callbacks).keep(version)


def kept_value(run):
    variable = tf.Variable([0.0])
    restore_policy(find_checkpoint(run.paths, "best"), [variable])
    return float(variable[0])


def test_the_policy_of_the_best_complete_evaluation_is_kept_and_no_other(run):
    with pytest.raises(ConfigError, match="has no best policy yet"):
        find_checkpoint(run.paths, "best")
    evaluate(run, 100, [1.0, 2.0])  # an episode is missing: its worker has vanished
    assert best_policy(run.paths) is None
    evaluate(run, 200, [1.0, 2.0, 6.0])
    assert kept_value(run) == 200
    for train_step, returns in ((300, [2.0, 2.0, 2.0]), (400, [3.0, 3.0, 3.0]), (500, [9.0])):
        evaluate(run, train_step, returns)  # worse, no better, not complete
        assert kept_value(run) == 200
    evaluate(run, 600, [3.0, 3.0, 4.0], worker_ids=(0,))
    assert kept_value(run) == 600
    (folder,) = run.paths.best_policies.iterdir()
    assert folder.name == "policy_checkpoint_0000000600"
    assert json.loads((folder / "best.json").read_text()) == {
        "iteration": 60,
        "train_step": 600,
        "mean_return": pytest.approx((3 + 3 + 4) / 3),
        "num_episodes": 3,
    }


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_evaluation_that_is_not_finite_is_never_the_best(run, bad):
    evaluate(run, 100, [bad, 1.0, 1.0])
    assert best_policy(run.paths) is None


def test_two_programs_at_once_lose_no_better_policy(run):
    evaluate(run, 100, [1.0] * 3)
    first = best_policy(run.paths).folder
    aside = run.paths.root / "aside"
    first.rename(aside)
    evaluate(run, 200, [0.0] * 3)  # by a program that has looked before the other one had written
    aside.rename(first)
    assert best_policy(run.paths).train_step == 100
    evaluate(run, 300, [2.0] * 3)
    assert [path.name for path in run.paths.best_policies.iterdir()] == [
        "policy_checkpoint_0000000300"
    ]


@pytest.mark.parametrize(
    ("stop_when", "at"),
    [
        ("return >= 4", 300),
        ("return >= 3 for 3 evaluations", 400),
        ("return >= 9", None),
        ("success >= 1", 300),
        ("success > 0.9 for 3 evaluations", 500),
        ("distance_mean < 2 or return >= 100", 400),
        ("time >= 1s", None),
    ],
)
def test_stop_when_asks_for_the_end_after_complete_evaluations(run, stop_when, at):
    run.paths.running.mkdir()
    run.params.stop_when, run.params.log_info = stop_when, ["distance"]
    # train step: mean return, success, distance
    course = {100: (1, False, 5), 200: (3, False, 4), 300: (4, True, 3), 400: (3, True, 1)}
    ended_at = []
    for train_step, (mean, success, distance) in (course | {500: (5, True, 2)}).items():
        numbers = {"distance_mean": distance}
        evaluate(run, train_step, [mean - 1, mean + 1], success=success, numbers=numbers)
        assert bool(requested_end(run.paths)) == bool(ended_at)  # an episode is missing
        evaluate(run, train_step, [mean], success=success, numbers=numbers)
        if requested_end(run.paths) and not ended_at:
            ended_at.append(train_step)
    assert ended_at == ([at] if at else [])


class Tape:
    """Writes down what it is told of evaluations."""

    def __init__(self):
        self.events = []

    def on_evaluation(self, event):
        self.events.append(event)
        if event.train_step == 300:
            event.stop_training("the robot is tired")


def test_callbacks_are_told_of_each_complete_evaluation_once_and_may_end_training(run):
    tape = Tape()
    run.paths.running.mkdir()
    run.params.callbacks = lambda: [tape]
    evaluate(run, 100, [1.0, 2.0])
    evaluate(run, 200, [1.0, 2.0, 6.0], success=True, numbers={"distance_mean": 0.5})
    evaluate(run, 300, [0.0, 0.0, 0.0])
    first, second = tape.events
    assert (first.program, first.train_step, first.iteration) == ("worker_0", 200, 20)
    assert sorted(first.returns) == [1.0, 2.0, 6.0] and first.mean_return == 3.0
    assert (first.success_rate, first.numbers) == (1.0, {"distance_mean": 0.5})
    assert (first.is_best, second.is_best) == (True, False)
    assert requested_end(run.paths) == "the robot is tired (Tape.on_evaluation)"


def test_an_evaluation_is_told_once_whoever_finds_it_complete(run):
    """Two workers record the last episodes at once; later, lost tickets are repeated."""
    tape, returns = Tape(), [1.0, 2.0, 6.0]
    run.params.callbacks = lambda: [tape]
    version = PolicyVersion(200, [np.float32([200])])
    for worker_id in (0, 1):
        log = EpisodeLog(run.paths.episodes, "eval", worker_id)
        for episode_return in returns[worker_id::2]:
            log.append(Episode(episode_return, 3, None, True), 0, 200, 0)
    for worker_id in (0, 1):
        callbacks = Callbacks(run.params.callbacks, f"worker_{worker_id}", run.paths)
        BestPolicyKeeper(run, [tf.Variable([0.0])], callbacks).keep(version)
    evaluate(run, 200, [9.0, 9.0])
    (event,) = tape.events
    assert (sorted(event.returns), event.is_best) == (returns, True)
    events = run.paths.eval_summaries.glob("events.*")
    found = [e for file in events for e in tf.compat.v1.train.summary_iterator(str(file))]
    tags = [value.tag for event in found for value in event.summary.value]
    assert tags.count("eval/mean_return") == 1


def test_it_is_the_best_also_if_another_program_has_just_saved_it(run):
    tape = Tape()
    evaluate(run, 200, [1.0, 2.0, 6.0])
    (run.paths.evaluations / "0000000200").unlink()  # the one that has saved did not claim
    run.params.callbacks = lambda: [tape]
    callbacks = Callbacks(run.params.callbacks, "worker_1", run.paths)
    version = PolicyVersion(200, [np.float32([200])])
    BestPolicyKeeper(run, [tf.Variable([0.0])], callbacks).keep(version)
    assert [event.is_best for event in tape.events] == [True]


def test_the_reason_to_stop_has_the_values(run):
    run.paths.running.mkdir()
    run.params.stop_when = "return >= 4 for 2 evaluations"
    evaluate(run, 100, [4.0, 4.0, 5.5])
    evaluate(run, 200, [7.0, 7.0, 7.0])
    assert requested_end(run.paths) == "return >= 4 for 2 evaluations (4.5, 7)"


def test_a_damaged_best_policy_does_not_count(run):
    evaluate(run, 100, [5.0] * 3)
    (best_policy(run.paths).folder / "best.json").write_text("{")
    evaluate(run, 200, [1.0] * 3)
    assert kept_value(run) == 200


def test_a_complete_evaluation_is_summed_up_once_over_all_workers(run):
    evaluate(run, 100, [1.0, 2.0])
    assert not run.paths.eval_summaries.exists()
    evaluate(run, 200, [1.0, 2.0, 6.0], success=True)
    evaluate(run, 300, [0.0, 0.0, 0.0], numbers={"distance_mean": 0.5})
    found = []
    for file in sorted(run.paths.eval_summaries.glob("events.*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            found += [(event.step, value.tag, value) for value in event.summary.value]
    values = {(step, tag): value for step, tag, value in found}
    assert len(values) == len(found)
    assert values.keys() == {
        (200, "eval/mean_return"), (200, "eval/success_rate"), (200, "eval/returns"),
        (200, "hyperparameters"), (300, "eval/mean_return"), (300, "eval/returns"),
        (300, "eval/success_rate"), (300, "eval/info/distance_mean"),
    }  # fmt: skip
    assert values[200, "eval/mean_return"].simple_value == statistics.fmean([1.0, 2.0, 6.0])
    assert values[200, "eval/success_rate"].simple_value == 1.0
    assert values[300, "eval/success_rate"].simple_value == 0.0  # reports successes alone
    assert values[300, "eval/info/distance_mean"].simple_value == 0.5
    histogram = values[200, "eval/returns"].histo
    assert (histogram.min, histogram.max, sum(histogram.bucket)) == (1.0, 6.0, 3)
    (text,) = tf.make_ndarray(values[200, "hyperparameters"].tensor)
    assert b"    TrainParams.n_eval_episodes = 3\n" in text
