import errno
import math
import os
import re
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED, Tape
from records.test_event_log import events
from replay_fakes import EpisodeStepEnv, TinyParams, codec_of, make_experiment, serving
from small_disk import small_disk

from tfagents_system import assembly, sac_train
from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import (
    EXIT_DIVERGED,
    EXIT_FINISHED,
    EXIT_STOPPED,
    StorageError,
    SupersededError,
)
from tfagents_system.core.meters import RecentRate
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.state import provenance, status_reporter
from tfagents_system.core.state.end_request import request_end
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.generations import generations, read_manifests
from tfagents_system.core.state.incarnation import CORE, Claims
from tfagents_system.core.state.pause import LEARNING, pause, resume
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.core.state.running import begin_run
from tfagents_system.core.waiting import wait_until
from tfagents_system.kernels.arithmetic import resolve, this_host
from tfagents_system.learning import last_save, learner, run_data
from tfagents_system.learning.policy_export import PolicyExporter
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.records import event_log
from tfagents_system.services.adder import Adder
from tfagents_system.services.journal import Checkpoints, Journal, Stream
from tfagents_system.services.replay import VARIABLES_TABLE, ReplaySnapshots, experience_stats
from tfagents_system.services.replay_files import stored_numbers
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.variables import VariableReader

NUM_TRAIN_STEPS = 4 * 10  # of TinyParams


class StopAt:
    """Becomes true when the learner has reported `train_step`."""

    def __init__(self, paths, train_step):
        self._paths, self._train_step = paths, train_step

    def __bool__(self):
        return read_report(self._paths, "learner").train_step >= self._train_step


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for kind in ("intra", "inter"):  # refused once TensorFlow has begun to work
        monkeypatch.setattr(
            tf.config.threading, f"set_{kind}_op_parallelism_threads", lambda number: None
        )
    monkeypatch.setattr(run_data, "DATA_TIMEOUT_SECS", 0.3)


@pytest.fixture
def without_saved_models(monkeypatch):
    """For tests that look at no SavedModel, because writing both takes longer than training."""
    monkeypatch.setattr(PolicyExporter, "_save_models", lambda exporter: None)


@pytest.fixture
def replay(tmp_path):
    with serving(tmp_path / "reverb") as running:
        yield running


def fill(replay):
    environment = EpisodeStepEnv()
    adder = Adder(replay.client(), codec_of(environment))
    for _ in range(10):
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 3, adder.add)
        adder.end_episode()
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)


def steps(paths):
    return [int(generation.name) for generation in generations(paths.checkpoints)]


def variables_of(checkpoint):
    reader = tf.train.load_checkpoint(str(checkpoint / "variables" / "variables"))
    return {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()
            if name.startswith("model_variables")}  # fmt: skip


class StopWhen:
    """Becomes true when `condition` does."""

    def __init__(self, condition):
        self._condition = condition

    def __bool__(self):
        return self._condition()


@pytest.mark.usefixtures("without_saved_models")
def test_a_stop_does_not_wait_for_the_compiler_and_saves_nothing(tmp_path, replay, monkeypatch):
    may_go_on = threading.Event()
    gradients = ActorCriticAgent.gradients

    def slow(agent, transition):
        assert may_go_on.wait(60)
        return gradients(agent, transition)

    def is_said():
        report = read_report(paths, "learner")
        return report is not None and report.phase == "compiling the train step"

    monkeypatch.setattr(ActorCriticAgent, "gradients", slow)
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    code = sac_train.train(str(paths.root), replay.address, 2, stop=StopWhen(is_said))
    assert read_report(paths, "learner").phase_secs["compiling the train step"] > 0
    may_go_on.set()
    assert code == EXIT_STOPPED
    assert steps(paths) == [] and not paths.finished.exists()
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED


def of_kind(tape, name):
    return [event for event in tape.events if type(event).__name__ == name]


@pytest.mark.usefixtures("without_saved_models")
def test_callbacks_are_told_of_iterations_checkpoints_and_the_end(tmp_path, replay, monkeypatch):
    tape = Tape()
    monkeypatch.setattr(TinyParams, "callbacks", lambda self: [tape])
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    assert (tape.events[0].program, tape.events[0].train_step) == ("learner", 0)
    iterations = of_kind(tape, "IterationEvent")
    assert [(e.iteration, e.train_step) for e in iterations] == [(i, 10 * i) for i in (1, 2, 3, 4)]
    assert all(math.isfinite(e.metrics["critic_loss"]) for e in iterations)
    checkpoints = of_kind(tape, "CheckpointEvent")
    assert checkpoints[-1].train_step == NUM_TRAIN_STEPS
    assert checkpoints[-1].checkpoint.is_dir()
    assert (tape.events[-1].end, tape.events[-1].iteration) == ("finished", 4)
    failure = read_report(paths, "learner").failure
    assert failure.startswith("CALLBACK FAILED: Tape.on_")


@pytest.mark.usefixtures("without_saved_models")
def test_metrics_are_of_all_train_steps_since_the_last_and_the_actor_s_of_its_own(
    tmp_path, replay, monkeypatch
):
    monkeypatch.setattr(learner, "MAX_STEPS_PER_CALL", 1)
    run, calls, tape = learner.Learner.run, [], Tape()

    def recorded(self, *arguments):
        metrics = run(self, *arguments)
        calls.extend([metrics] if metrics else [])
        return metrics

    monkeypatch.setattr(learner.Learner, "run", recorded)
    monkeypatch.setattr(TinyParams, "callbacks", lambda self: [tape])
    paths = make_experiment(tmp_path / "exp", "policy_delay = 3; log_period_itrs = 2")
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED

    def mean(name, steps):
        return sum(call[name] for call in steps) / len(steps)

    assert [call["actor_steps"] for call in calls] == [0, 0, 1] * 13 + [0]
    told = [event.metrics for event in of_kind(tape, "IterationEvent")]
    written = events(paths.train_summaries / "learner")
    for begin, end, metrics in [
        *((10 * i, 10 * i + 10, told[i]) for i in range(4)),
        *((step - 20, step, {tag.removeprefix("learner/"): value
                             for at, tag, value in written if at == step}) for step in (20, 40)),
    ]:  # fmt: skip
        of_actor = [call for call in calls[begin:end] if call["actor_steps"]]
        expected = {"critic_loss": mean("critic_loss", calls[begin:end])}
        expected |= {name: mean(name, of_actor) for name in ("actor_loss", "alpha_loss", "entropy")}
        expected["loss"] = sum(expected[f"{name}_loss"] for name in ("critic", "actor", "alpha"))
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
        assert "actor_steps" not in metrics


@pytest.mark.usefixtures("without_saved_models")
def test_each_start_of_the_learner_draws_other_random_numbers_and_the_first_those_of_the_seed(
    tmp_path, replay, monkeypatch
):
    monkeypatch.setattr(learner, "MAX_STEPS_PER_CALL", 1)
    run, drawn = learner.Learner.run, []

    def draw():
        return tf.function(lambda: tf.random.uniform([4]))().numpy().tolist()

    def recorded(self, *arguments):
        drawn.append(draw())
        return run(self, *arguments)

    monkeypatch.setattr(learner.Learner, "run", recorded)
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    begun_at, first_draws = [], []
    for _ in range(3):
        begun_at.append(steps(paths)[0] if steps(paths) else 0)
        drawn.clear()
        stop = StopWhen(lambda: len(drawn) == 5)
        assert sac_train.train(str(paths.root), replay.address, 1, stop=stop) == EXIT_STOPPED
        first_draws.append(drawn[0])

    assert len(set(begun_at)) == 3 and begun_at[0] == 0
    for train_step, expected in zip(begun_at, first_draws, strict=True):
        seed = derive_seed(3, SeedPurpose.LEARNER, env_step=train_step)
        tf.random.set_seed(derive_seed(seed, SeedPurpose.TENSORFLOW))
        assert draw() == expected
    assert first_draws[0] not in first_draws[1:]


@pytest.mark.usefixtures("without_saved_models")
def test_a_requested_end_finishes_training_before_its_last_iteration(tmp_path, replay, capsys):
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    request_end(paths, "enough")
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    (train_step,) = steps(paths)
    assert 0 < train_step < NUM_TRAIN_STEPS
    assert read_json(paths.finished) == {
        "train_step": train_step, "num_iter": 4, "iteration": train_step // 10,
        "stopped_because": "enough", "stop_when": None,
    }  # fmt: skip
    assert read_report(paths, "learner").phase == Phase.FINISHED
    assert capsys.readouterr().out.count("Training ends early: enough.") == 1


@pytest.mark.usefixtures("without_saved_models")
def test_a_paused_learner_takes_no_train_step_until_it_goes_on(tmp_path, replay, monkeypatch):
    begun = []  # a pause does not lengthen the time left
    monkeypatch.setattr(RecentRate, "begin_anew", lambda self, count: begun.append(count))
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    pause(paths, [LEARNING])
    looks = []

    def goes_on():
        report = read_report(paths, "learner")
        if report and report.phase == Phase.PAUSED:
            looks.append(report.train_step)
        if len(looks) == 20:
            resume(paths)
        return False

    code = sac_train.train(str(paths.root), replay.address, 2, stop=StopWhen(goes_on))
    assert code == EXIT_FINISHED
    assert looks[:20] == [0] * 20
    assert set(begun) == {0}
    assert read_json(paths.finished)["train_step"] == NUM_TRAIN_STEPS


@pytest.mark.parametrize("unroll_after_steps, num_traces", [(1000, 1), (15, 2)])
def test_training_ends_with_everything_on_disk_and_the_last_policy_published(
    tmp_path, replay, monkeypatch, capsys, unroll_after_steps, num_traces
):
    monkeypatch.setattr(learner, "UNROLL_AFTER_STEPS", unroll_after_steps)
    is_compiled = learner.Learner.is_compiled  # not beside the 40 train steps, which are too few
    monkeypatch.setattr(
        learner.Learner, "is_compiled", lambda self, n, _=0: is_compiled(self, n, 60)
    )
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    assert read_json(paths.finished) == {"train_step": NUM_TRAIN_STEPS, "num_iter": 4}
    assert steps(paths) == [40, 20]
    assert [p.name for p in paths.policy_checkpoints()] == [
        "policy_checkpoint_0000000020", "policy_checkpoint_0000000040"]  # fmt: skip
    first, last = map(variables_of, paths.policy_checkpoints())
    assert first.keys() == last.keys() and first != last
    assert "TrainParams.num_steps_per_iter = 10" in paths.gin.read_text()
    report = read_report(paths, "learner")
    assert (report.phase, report.iteration, report.num_iter) == ("finished", 4, 4)
    assert report.graph_traces == num_traces
    assert report.phase_secs["waiting for the first data"] > 0  # the first fill is no bottleneck
    assert report.arithmetic == resolve("auto", this_host()) and report.arithmetic_change is None
    assert read_json(paths.provenance)["arithmetic"] == report.arithmetic
    log = capsys.readouterr().out
    assert f"Matrix products of train steps: {report.arithmetic}." in log

    greedy = tf.saved_model.load(str(paths.policies / "greedy_policy"))
    reader = VariableReader(replay.address, list(greedy.model_variables), period_secs=0.01)
    wait_until(lambda: reader.latest, 60, "the published policy")
    reader.close()
    assert reader.latest.train_step == NUM_TRAIN_STEPS
    for value, variable in zip(reader.latest.values, greedy.model_variables, strict=True):
        assert value.tolist() == variable.numpy().tolist()

    tags = {}
    for file in (paths.train_summaries / "learner").glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                tags.setdefault(value.tag, []).append(event.step)
    assert tags["learner/critic_loss"] == [10, 20, 30, 40]
    names = ("loss", "actor_loss", "alpha", "entropy", "q_value", "train_steps_per_sec")
    assert tags.keys() >= {f"learner/{name}" for name in names}


@pytest.mark.usefixtures("without_saved_models")
def test_nothing_that_only_reports_ends_the_learner(tmp_path, replay, monkeypatch, capsys):
    def broken(*arguments, **more):
        raise RuntimeError("broken")

    monkeypatch.setattr(event_log.tf.summary, "create_file_writer", broken)
    monkeypatch.setattr(status_reporter, "write_json_atomically", broken)
    monkeypatch.setattr(provenance, "write_text_atomically", broken)
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 2, stop=False) == EXIT_FINISHED
    assert read_json(paths.finished) == {"train_step": NUM_TRAIN_STEPS, "num_iter": 4}
    assert steps(paths) == [40, 20]
    said = capsys.readouterr().out
    for what in ("TensorBoard events", "status", "gin.txt"):
        assert f"REPORT FAILED: {what} (RuntimeError: broken)." in said


@pytest.mark.usefixtures("without_saved_models")
def test_the_training_state_is_saved_after_a_time_too_without_an_export(tmp_path, replay):
    periods = "checkpoint_period_itrs = 1000; checkpoint_period_secs = 0.001"
    paths = make_experiment(tmp_path / "exp", periods)
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_FINISHED
    last, before = steps(paths)
    assert last == NUM_TRAIN_STEPS and 0 < before < NUM_TRAIN_STEPS
    (exported,) = paths.policy_checkpoints()
    assert exported.name == f"policy_checkpoint_{NUM_TRAIN_STEPS:010d}"


@pytest.mark.usefixtures("without_saved_models")
def test_a_stop_saves_the_train_step_and_the_next_start_goes_on_from_it(
    tmp_path, replay, monkeypatch, capsys
):
    monkeypatch.setattr(status_reporter.StatusReporter, "report",
                        lambda self, phase, make: self.report_now(phase, make()))  # fmt: skip
    paths = make_experiment(tmp_path / "exp")
    fill(replay)
    stop = StopAt(paths, 5)
    assert sac_train.train(str(paths.root), replay.address, 1, stop=stop) == EXIT_STOPPED
    (stopped_at,) = steps(paths)
    assert 5 <= stopped_at < NUM_TRAIN_STEPS
    assert not paths.finished.exists()
    saved = variables_of(paths.policy_checkpoint(stopped_at))
    before = read_report(paths, "learner").arithmetic

    monkeypatch.setattr(assembly, "arithmetic_of", lambda agent: "another")
    bindings = ["TrainParams.discount = 0.9"]
    begin_run(paths, gin_bindings=bindings)
    assert (
        sac_train.train(str(paths.root), replay.address, 1, stop=StopAt(paths, 0)) == EXIT_STOPPED
    )
    assert read_json(paths.provenance)["gin_bindings"] == []  # none was trained with
    log, change = capsys.readouterr().out, f"{before} in the checkpoint, another here"
    assert f"Restored train step {stopped_at}.\nARITHMETIC CHANGED: {change}." in log
    assert read_report(paths, "learner").arithmetic_change == change
    assert steps(paths) == [stopped_at]
    assert variables_of(paths.policy_checkpoint(stopped_at)) == saved
    assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_FINISHED
    assert steps(paths)[0] == NUM_TRAIN_STEPS
    assert read_json(paths.provenance)["gin_bindings"] == bindings


@pytest.mark.system
def test_a_superseded_learner_publishes_and_writes_nothing_more(tmp_path, replay):
    paths = make_experiment(tmp_path / "exp", "checkpoint_period_itrs = 1000")
    fill(replay)
    claims = Claims(paths.incarnations)
    incarnation = claims.claim(CORE)
    folders = (paths.checkpoints, paths.policies, paths.running)
    seen = []

    def state():
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        info = replay.client().server_info(timeout=5)["variables"]
        return (
            {path: path.read_bytes() for path in files},
            info.rate_limiter_info.insert_stats.completed,
        )

    def claim_again():
        if not seen and paths.status("learner").exists():
            if read_report(paths, "learner").phase in (Phase.COMPILING, Phase.TRAINING):
                claims.claim(CORE)
                seen.append(state())
        return False

    with pytest.raises(SupersededError, match="number 2"):
        sac_train.train(
            str(paths.root), replay.address, 1, incarnation=incarnation, stop=StopWhen(claim_again)
        )
    assert [state()] == seen
    assert not paths.finished.exists()
    with pytest.raises(SupersededError):
        sac_train.train(str(paths.root), replay.address, 1, incarnation=incarnation, stop=False)
    assert [state()] == seen
    code = sac_train.train(str(paths.root), replay.address, 1, incarnation=2, stop=False)
    assert code == EXIT_FINISHED


@pytest.mark.usefixtures("without_saved_models")
def test_without_data_the_learner_publishes_does_not_train_and_heeds_a_stop(tmp_path, replay):
    paths = make_experiment(tmp_path / "exp")
    lost = []

    def is_published_again():
        if table_stats(replay.client(), VARIABLES_TABLE, timeout_secs=60)[0] == 0:
            return False
        if not lost:  # as with a server that is restarted
            replay.client().reset(VARIABLES_TABLE)
            lost.append(True)
            return False
        return True

    stop = StopWhen(is_published_again)
    assert sac_train.train(str(paths.root), replay.address, 1, stop=stop) == EXIT_STOPPED
    assert steps(paths) == [0]
    assert read_report(paths, "learner").waits_for == "replay"


def test_finished_training_waits_for_space_on_the_disk(monkeypatch, capsys):
    monkeypatch.setattr(last_save, "RETRY_PERIOD_SECS", 0.1)
    with small_disk(16 << 20) as disk, serving(disk.folder / "reverb") as replay:
        paths = make_experiment(disk.folder / "exp")
        fill(replay)
        assert sac_train.train(str(paths.root), replay.address, 1, stop=True) == EXIT_STOPPED
        for folder in (paths.checkpoints, paths.policies):  # the run's spec stays
            shutil.rmtree(folder)
            folder.mkdir()
        disk.fill()
        results = []
        thread = threading.Thread(
            target=lambda: results.append(
                sac_train.train(str(paths.root), replay.address, 1, stop=False)
            )
        )
        thread.start()
        output = []

        def has_tried_twice():
            output.append(capsys.readouterr().out)
            return "".join(output).count("Checkpoint at train step 40 failed: ") >= 2

        wait_until(has_tried_twice, 60, "two attempts at the end")
        assert "DISK FULL: policy " in "".join(output)
        assert steps(paths) == [] and not paths.finished.exists()
        disk.free()
        thread.join(30)
        assert results == [EXIT_FINISHED]
        assert steps(paths) == [NUM_TRAIN_STEPS]
        assert read_json(paths.finished)["train_step"] == NUM_TRAIN_STEPS
        assert [p.name for p in paths.policy_checkpoints()] == ["policy_checkpoint_0000000040"]


def test_a_stop_ends_the_wait_for_space_and_does_not_call_the_training_finished():
    with small_disk(16 << 20) as disk, serving(disk.folder / "reverb") as replay:
        paths = make_experiment(disk.folder / "exp")
        fill(replay)
        assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_FINISHED
        paths.finished.unlink()
        disk.fill()
        assert sac_train.train(str(paths.root), replay.address, 1, stop=True) == EXIT_STOPPED
        assert not paths.finished.exists()
        assert steps(paths) == [40, 20]


@pytest.mark.usefixtures("without_saved_models")
def test_checkpoints_that_fail_are_told_and_a_stop_without_one_is_no_saved_stop(
    tmp_path, replay, monkeypatch
):
    def fail(snapshots):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(ReplaySnapshots, "checkpoint", fail)
    monkeypatch.setattr(status_reporter.StatusReporter, "report",
                        lambda self, phase, make: self.report_now(phase, make()))  # fmt: skip
    paths = make_experiment(tmp_path / "exp", "checkpoint_period_secs = 0.001")
    fill(replay)
    with pytest.raises(StorageError, match="train steps are not saved: .* starts again"):
        sac_train.train(str(paths.root), replay.address, 1, stop=StopAt(paths, 15))
    report = read_report(paths, "learner")
    assert re.fullmatch(r".* \(\d+ attempts?\): .*Input/output error", report.not_saved)
    begin_run(paths)
    with pytest.raises(StorageError):
        sac_train.train(str(paths.root), replay.address, 1, stop=StopAt(paths, 1))
    trained = report.train_step
    assert f"of the {trained:,} train steps before" in read_report(paths, "learner").begins_anew


def add_wrong_transitions(replay, folder, rewards):
    """As workers of an older version did; returns the journal that keeps them."""
    environment = EpisodeStepEnv()
    codec = codec_of(environment)
    codec._largest, codec._most_squares = math.inf, math.inf
    journal = Journal(folder, Stream(0, 1), codec.columns, 1, 10**6, UNRIVALLED)
    adder = Adder(replay.client(), codec, journal=journal)
    for reward in rewards:
        time_step = environment.reset()
        for k in range(3):
            following = environment.step(np.zeros(1, np.float32))
            if k == 1:
                following = following._replace(reward=np.float32(reward))
            adder.add(time_step, np.zeros(1, np.float32), following)
            time_step = following
        adder.end_episode()
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)
    return adder


@pytest.mark.usefixtures("without_saved_models")
@pytest.mark.parametrize("num_fresh", [9, 32], ids=["pool", "no pool"])
def test_training_goes_on_once_without_the_items_at_which_it_diverged(
    tmp_path, replay, capsys, num_fresh
):
    settings = f"train_batch_size = 32; fresh_samples_per_step = {num_fresh}"
    paths = make_experiment(tmp_path / "exp", settings)
    fill(replay)
    adder = add_wrong_transitions(replay, paths.journals, [1e30])
    before, _ = experience_stats(replay.client(), timeout_secs=60)
    assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_FINISHED
    said = capsys.readouterr()
    assert "3 items of the replay buffer are removed for good" in said.out  # with two neighbours
    assert "the minibatch has reward 1e+30" in said.out and "diverged" not in said.err
    assert experience_stats(replay.client(), timeout_secs=60)[0] == before - 3
    assert steps(paths)[0] == NUM_TRAIN_STEPS
    report = read_report(paths, "learner")
    assert (report.phase, report.removed_items) == (Phase.FINISHED, 3)
    for checkpoint in paths.policy_checkpoints():
        values = np.concatenate([np.ravel(v) for v in variables_of(checkpoint).values()])
        assert np.isfinite(values).all() and np.abs(values).max() < 100
    # The worker does not miss them, and its journal forgets them.
    manifests = [stored_numbers(m["stored"]) for m in read_manifests(paths.checkpoints)]
    assert list(adder.send_lost(Checkpoints(manifests[0], manifests[0], ()))) == []
    assert b"\xca\xf2Iq" not in next(paths.journals.iterdir()).read_bytes()  # float32 1e30


@pytest.mark.usefixtures("without_saved_models")
def test_a_second_divergence_ends_training(tmp_path, replay, capsys, monkeypatch):
    paths = make_experiment(tmp_path / "exp", "train_batch_size = 32")
    fill(replay)
    add_wrong_transitions(replay, paths.journals, [1e30])
    monkeypatch.setattr(sac_train.ReplaySnapshots, "discard_items", lambda self, keys: len(keys))
    assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_DIVERGED
    said = capsys.readouterr()
    assert "a second time would end it" in said.out
    assert "training diverged at train step" in said.err and "loss" in said.err
    assert not paths.finished.exists()


@pytest.mark.usefixtures("without_saved_models")
def test_divergence_without_suspicious_items_ends_training_at_once(
    tmp_path, replay, capsys, monkeypatch
):
    paths = make_experiment(tmp_path / "exp", "critic_learning_rate = 1e30")
    fill(replay)
    assert sac_train.train(str(paths.root), replay.address, 1, stop=False) == EXIT_DIVERGED
    said = capsys.readouterr()
    assert "removed" not in said.out and "training diverged at train step" in said.err
