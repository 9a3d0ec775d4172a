"""The first fill, bursts, the curriculum, and what ends a worker."""

import functools
import itertools
import pathlib
import threading

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import EpisodeStepEnv, Stop, codec_of, serving
from worker_fakes import (
    NUM_ITER,
    STEPS_PER_ITER,
    FakeAdder,
    FakeReader,
    FakeTickets,
    TapePolicies,
    advance,
    make_run,
    make_worker,
    no_fill,
    rows_of,
)

from tfagents_system import sac_collect, workers
from tfagents_system.collection import newest_policies
from tfagents_system.collection.episode_log import EpisodeLog
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.state import running
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.data.item_layout import SINGLE
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import experience_stats
from tfagents_system.services.replay_limits import ReplayLimits
from tfagents_system.services.variables import VariablePublisher, VariableReader
from tfagents_system.services.versions import PolicyVersion


def test_a_worker_waits_for_initial_weights_to_act_with_them_from_the_first_env_step(tmp_path):
    run = make_run(tmp_path)
    run.paths.initial_weights.mkdir()
    policies, reader, updates = TapePolicies(), FakeReader(), []

    class Environment(EpisodeStepEnv):
        def _step(self, action):
            updates.append(len(policies.updates))
            return super()._step(action)

    def on_confirm():
        reader.publish_iteration(NUM_ITER)
        return True

    adder = FakeAdder(on_confirm)
    worker = make_worker(run, adder, reader, environment=Environment(), policies=policies)
    learner = threading.Timer(0.3, reader.publish_iteration, [0])
    learner.start()
    assert worker.run(lambda: 3 - adder.num_added, policies.collect) == EXIT_FINISHED
    learner.join()
    assert updates == [1, 1, 1]


def test_the_first_fill_is_shared_by_the_workers_and_happens_once(tmp_path):
    num_workers, burst_length = 2, 5
    run = make_run(tmp_path, n_buffer_init_episodes=30)  # x horizon 3 = 90 env steps

    class ReaderAfterFill:
        """The learner publishes its last version when the fill is there."""

        def __init__(self, client):
            self._client = client

        def refresh(self, timeout_secs):
            pass

        @property
        def latest(self):
            if experience_stats(self._client, timeout_secs=60)[1] < 90:
                return None
            return PolicyVersion(NUM_ITER * STEPS_PER_ITER, [])

    num_initial = ReplayLimits.from_settings(run.params, run.horizon, SINGLE).min_size

    def run_workers(replay):
        environments = [EpisodeStepEnv() for _ in range(num_workers)]
        all_are_ready = threading.Barrier(num_workers)
        codes = []

        def work(worker_id):
            client = replay.client()
            adder = Adder(client, codec_of(environments[0]), burst_length=burst_length)
            reader = ReaderAfterFill(client)
            worker = make_worker(run, adder, reader, worker_id,
                                 environment=environments[worker_id])  # fmt: skip
            num_to_fill = sac_collect._num_to_fill_fn(num_initial, client, Stop())
            all_are_ready.wait(60)
            codes.append(worker.run(num_to_fill, RandomPolicy(environments[0].action_spec(), 0)))

        threads = [threading.Thread(target=work, args=[i]) for i in range(num_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert codes == [EXIT_FINISHED] * num_workers
        return [environment.num_steps for environment in environments]

    with serving(tmp_path / "before") as replay:
        steps = run_workers(replay)
        assert 90 <= sum(steps) < 90 + num_workers * burst_length
        assert min(steps) > 0
        assert experience_stats(replay.client(), timeout_secs=60)[1] == sum(steps)
        assert run_workers(replay) == [0, 0]  # restarted workers
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "after", restore_from=checkpoint) as replay:
        assert run_workers(replay) == [0, 0]  # a resumed run


def test_the_fill_policy_acts_in_the_fill_only(tmp_path):
    class ConstantPolicy:
        def __init__(self, value):
            self._value = value

        def initial_state(self):
            return ()

        def action(self, time_step, state):
            actions.append(self._value)
            return np.float32([self._value]), state

    actions, reader = [], FakeReader(FakeTickets(NUM_ITER, 3))
    adder = FakeAdder(advance(reader, first=NUM_ITER - 4))
    policies = TapePolicies(ConstantPolicy(0.5), ConstantPolicy(0.0))
    worker = make_worker(make_run(tmp_path), adder, reader, policies=policies)
    worker.run(lambda: 4 - adder.num_added, ConstantPolicy(-0.5))
    # Bursts of 3: after the second one the fill has its 4 steps. Of three more, the third waits for
    # the confirmation of the second, and training is finished. 3 evaluations of 3 steps follow.
    assert actions == [-0.5] * 6 + [0.5] * 9 + [0.0] * 9


def test_each_iteration_gets_its_curriculum_values_and_each_change_one_call(tmp_path):
    curriculum = {
        "mass": {"iters": [2, 5, 6], "range": [1.0, 2.0]},
        "level": {"iters": [0, 5], "range": [1, 9]},
    }
    run, reader, environment = make_run(tmp_path, curriculum), FakeReader(), EpisodeStepEnv()
    worker = make_worker(run, FakeAdder(advance(reader)), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert environment.states == [
        {"level": 1}, {"mass": 1.0}, {"mass": 1.5}, {"level": 9}, {"mass": 2.0}]  # fmt: skip
    # An episode is one burst, whose confirmation makes the next iteration; the row says the
    # iteration at its end, when the burst before is confirmed. The end of training cut the last.
    assert [int(row["iteration"]) for row in rows_of(run, "collect")] == list(range(NUM_ITER))
    assert read_report(run.paths, "worker_0").curriculum == {"mass": 2.0, "level": 9}

    environment = EpisodeStepEnv()  # of a worker that starts again in iteration 5
    adder = FakeAdder(advance(reader, first=5))
    make_worker(run, adder, reader, environment=environment).run(no_fill, None)
    assert environment.states == [{"mass": 1.5}, {"level": 9}, {"mass": 2.0}]


def lessons_and_sampler():
    until = {"measure": "reward", "threshold": 1}
    return {
        "gap": {"lessons": [{"value": 3, "until": until}, {"value": 7}]},
        "mass": {"sampler": "uniform", "low": 0.0, "high": 1.0},
    }


def test_an_episode_has_the_published_lesson_and_a_value_drawn_by_worker_and_env_step(tmp_path):
    class ReaderWithLessons(FakeReader):
        def publish_iteration(self, iteration):
            super().publish_iteration(iteration)
            self.latest = self.latest._replace(lessons=(int(iteration >= 5),))

    def states_of(worker_id, name):
        run = make_run(tmp_path / name, lessons_and_sampler())
        reader, environment = ReaderWithLessons(), EpisodeStepEnv()
        worker = make_worker(
            run, FakeAdder(advance(reader)), reader, worker_id, environment=environment
        )
        worker._environments = worker._environments._replace(
            episode_seed=functools.partial(derive_seed, 7, SeedPurpose.CURRICULUM, worker_id)
        )
        assert worker.run(no_fill, None) == EXIT_FINISHED
        return run, environment.states

    run, states = states_of(0, "first")
    assert states_of(0, "again")[1] == states
    gaps = [state for state in states if "gap" in state]
    masses = [state["mass"] for state in states if "mass" in state]
    assert gaps == [{"gap": 3}, {"gap": 7}]
    assert len(set(masses)) == len(masses) == NUM_ITER + 1  # episodes, also the cut one
    curriculum = Curriculum.from_config(lessons_and_sampler(), "test")
    for index, mass in enumerate(masses):
        seed = derive_seed(7, SeedPurpose.CURRICULUM, 0, env_step=3 * index)
        assert mass == curriculum.state_at(0, seed=seed)["mass"]
    assert not set(masses) & {state.get("mass") for state in states_of(1, "other")[1]}
    lines = (run.paths.episodes / "lessons_0.csv").read_text().splitlines()[1:]
    # An episode begins before the burst that makes the next iteration.
    assert [line.rpartition(",")[2] for line in lines] == ["0"] * 6 + ["1"] * (NUM_ITER - 6)


def test_a_worker_whose_policy_does_not_reach_the_end_ends_with_the_learners_file(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "FINISHED_PERIOD_SECS", 0.0)
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(3)
    bursts = itertools.count()

    def on_confirm():
        if next(bursts) == 2:
            run.paths.finished.touch()  # and the server has gone
        return not run.paths.finished.exists()

    worker = make_worker(run, FakeAdder(on_confirm), reader)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert read_report(run.paths, "worker_0").phase == Phase.FINISHED


def test_a_worker_that_waits_for_a_first_policy_ends_with_the_learners_file(tmp_path):
    run = make_run(tmp_path)
    run.paths.finished.touch()
    worker = make_worker(run, FakeAdder(), FakeReader())
    assert worker.run(no_fill, None) == EXIT_FINISHED


def test_a_burst_waits_until_the_one_before_is_confirmed(tmp_path):
    run, reader, environment = make_run(tmp_path), FakeReader(), EpisodeStepEnv()
    reader.publish_iteration(0)
    answers = iter([True, False, False, False, True])
    tape = []

    def on_confirm():
        answer = next(answers, None)
        if answer is None:
            reader.publish_iteration(NUM_ITER)
        tape.append(environment.num_steps)
        return answer is not False

    worker = make_worker(run, FakeAdder(on_confirm), reader, environment=environment)
    assert worker.run(no_fill, None) == EXIT_FINISHED
    assert tape == [6, 9, 9, 9, 9, 12]


def test_the_newest_version_is_taken_with_each_burst(tmp_path):
    run, reader, policies = make_run(tmp_path), FakeReader(), TapePolicies()
    adder = FakeAdder(advance(reader, first=3, by=5))
    make_worker(run, adder, reader, policies=policies).run(no_fill, None)
    assert policies.updates == [["of 3"], ["of 8"], ["of 13"], ["of 18"], ["of 20"]]


def test_a_stop_ends_the_wait_for_the_limiter_and_the_exit_code_says_so(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    reader.publish_iteration(0)

    def on_confirm():
        stop.is_set = True
        return False

    worker = make_worker(run, FakeAdder(on_confirm), reader, stop=stop)
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert read_report(run.paths, "worker_0").phase == "stopped"
    assert rows_of(run, "eval") == []


def test_a_stop_within_an_episode_leaves_nothing_unsent(tmp_path):
    run, reader, stop = make_run(tmp_path), FakeReader(), Stop()
    reader.publish_iteration(0)

    class StoppingEnv(EpisodeStepEnv):
        def _step(self, action):
            stop.is_set = True
            return super()._step(action)

    adder = FakeAdder(burst_length=100)
    worker = make_worker(run, adder, reader, stop=stop, environment=StoppingEnv())
    assert worker.run(no_fill, None) == EXIT_STOPPED
    assert (adder.num_added, adder.num_unsent) == (3, 0)  # a whole episode
    assert not adder.is_pending  # the server has it


def test_the_end_of_training_ends_the_wait_for_the_limiter(tmp_path):
    run, reader = make_run(tmp_path), FakeReader(FakeTickets(8, 1))
    reader.publish_iteration(0)

    def on_confirm():
        reader.publish_iteration(NUM_ITER)
        return False

    assert make_worker(run, FakeAdder(on_confirm), reader).run(no_fill, None) == EXIT_FINISHED
    assert {row["iteration"] for row in rows_of(run, "eval")} == {str(NUM_ITER)}


def test_env_steps_go_on_from_the_log_of_the_start_before(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    for _ in range(2):
        make_worker(run, FakeAdder(advance(reader, first=17)), reader).run(no_fill, None)
    assert [int(row["env_step"]) for row in rows_of(run, "collect")] == [3, 6, 9, 12, 15, 18]
    assert EpisodeLog(run.paths.episodes, "collect", 0).env_step == 18


def test_no_policy_from_the_learner_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "VARIABLES_TIMEOUT_SECS", 0.1)
    worker = make_worker(make_run(tmp_path), FakeAdder(), FakeReader())
    with pytest.raises(TimeoutError, match="the learner's first policy; see .*learner.log"):
        worker.run(no_fill, None)


def test_what_a_crash_has_lost_is_sent_after_each_checkpoint_before_the_next_episode(tmp_path):
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(0)
    tape = []

    class TapeAdder(FakeAdder):
        def add(self, *step, **more):
            tape.append("step")
            return super().add(*step, **more)

        def send_lost(self, checkpoints):
            for _ in super().send_lost(checkpoints):
                tape.append("lost")
                yield

    def new_checkpoints():
        tape.append("asked")
        return [5, 2] if tape.count("asked") == 2 else None

    def on_confirm():
        if tape.count("asked") == 4:
            reader.publish_iteration(NUM_ITER)
        return True

    adder = TapeAdder(on_confirm, burst_length=3)
    make_worker(run, adder, reader, new_checkpoints=new_checkpoints).run(no_fill, None)
    episode = ["step"] * 3
    assert tape == [
        "asked",
        *episode,
        "asked",
        "lost",
        "lost",
        *episode,
        *(["asked", *episode] * 2),
    ]
    assert read_report(run.paths, "worker_0").items_sent_again == 5 + 2


def test_a_worker_sees_every_iteration_of_a_fast_run(tmp_path, monkeypatch):
    monkeypatch.setattr(newest_policies, "PULL_TIMEOUT_SECS", 60.0)
    curriculum = {"mass": {"iters": list(range(NUM_ITER)), "range": [0, NUM_ITER - 1]}}
    run, environment = make_run(tmp_path, curriculum, n_eval_episodes=0), EpisodeStepEnv()
    variables = [tf.Variable([1.0, 2.0])]
    with serving(tmp_path / "reverb") as replay:
        publisher = VariablePublisher(replay.client(), variables)
        publisher.publish(0)
        reader = VariableReader(replay.address, variables, sac_collect.VARIABLES_PERIOD_SECS)
        train_steps = itertools.count(STEPS_PER_ITER, STEPS_PER_ITER)
        adder = FakeAdder(lambda: publisher.publish(next(train_steps)))
        worker = make_worker(run, adder, reader, environment=environment)
        assert worker.run(no_fill, None) == EXIT_FINISHED
        reader.close()
    assert [state["mass"] for state in environment.states] == list(range(NUM_ITER))
