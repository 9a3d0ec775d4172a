import functools
import random
import threading

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import (
    EpisodeStepEnv,
    SleepingWatchdog,
    Stop,
    codec_of,
    make_experiment,
    make_tiny_agent,
    samples_of,
    serving,
    write_run_spec,
)

from tfagents_system import sac_collect
from tfagents_system.collection import worker_environments
from tfagents_system.collection.episode_log import EpisodeLog
from tfagents_system.collection.rollouts import Episode
from tfagents_system.collection.worker_environments import make_environments
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.state.files import read_json, write_json_atomically
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.waiting import wait_until
from tfagents_system.data.item_description import item_columns
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import experience_stats
from tfagents_system.services.tickets import TicketOffice
from tfagents_system.services.variables import VariablePublisher


@pytest.fixture(autouse=True)
def keep_threads(monkeypatch):
    """TensorFlow refuses to change its threads once it has begun to work."""
    for kind in ("intra", "inter"):
        monkeypatch.setattr(
            tf.config.threading, f"set_{kind}_op_parallelism_threads", lambda number: None
        )


def test_a_worker_that_is_faster_than_the_learner_is_verified(tmp_path, monkeypatch):
    paths = make_experiment(tmp_path / "exp")
    write_run_spec(paths)
    spec = read_json(paths.run_spec)
    paths.run_spec.unlink()
    errors, is_ready, assemble = [], threading.Event(), sac_collect.assemble

    def assembled_before_the_wait(*args):
        is_ready.set()
        return assemble(*args)

    monkeypatch.setattr(sac_collect, "assemble", assembled_before_the_wait)

    def work():
        try:
            sac_collect.collect(str(paths.root), "localhost:1", 0, 60.0, Stop())
        except ConfigError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    assert is_ready.wait(20)
    thread.join(0.3)
    assert thread.is_alive()
    write_json_atomically(paths.run_spec, spec | {"horizon": 11})
    thread.join(20)
    assert "horizon is 11 in the run, 10 here" in errors[0]


def test_a_stop_cuts_a_workers_wait_for_the_runs_spec(tmp_path):
    paths, stop = make_experiment(tmp_path / "exp"), Stop()
    stop.is_set = True
    code = sac_collect.collect(str(paths.root), "localhost:1", 0, 60.0, stop)
    assert code == EXIT_STOPPED


def test_a_worker_of_another_layout_is_refused_by_the_table(tmp_path):
    paths = make_experiment(tmp_path / "exp")
    write_run_spec(paths)
    columns = item_columns(ItemLayout(8), codec_of(EpisodeStepEnv()).columns)
    with serving(tmp_path / "reverb", columns=columns) as replay:
        with pytest.raises(ConfigError, match=r"table is for items of float32 \[9, 6\], but this "):
            sac_collect.collect(str(paths.root), replay.address, 0, 60.0, Stop())
        assert experience_stats(replay.client(), timeout_secs=60) == (0, 0)


def test_a_worker_fills_collects_evaluates_and_ends_with_training(tmp_path):
    paths = make_experiment(tmp_path / "exp")
    write_run_spec(paths)
    environment = EpisodeStepEnv()
    with serving(tmp_path / "reverb") as replay:
        client = replay.client()
        results = []

        def work():
            results.append(
                sac_collect.collect(str(paths.root), replay.address, 0, 60.0, Stop())
            )  # fmt: skip

        thread = threading.Thread(target=work)
        thread.start()

        def num_inserted():
            return experience_stats(client, timeout_secs=60)[1]

        wait_until(lambda: num_inserted() >= 40, 60, "4 episodes x 10 env steps")
        agent, _ = make_tiny_agent()
        publisher = VariablePublisher(client, agent.collect_policy.variables())
        publisher.publish(10)
        filled = num_inserted()
        wait_until(lambda: num_inserted() > filled + 50, 60, "collection")
        settings = load_run(str(paths.root)).params
        office = TicketOffice(
            client, agent.collect_policy.variables(), settings, paths.evaluation, lambda _: []
        )
        assert office.hand_out_if_due(40)
        publisher.publish(40, office.num_tickets)
        thread.join(30)
        assert results == [EXIT_FINISHED]
        samples = client.sample("experience", 200, emit_timesteps=False)
        reader = SampleReader(codec_of(environment), SINGLE)
        items = [samples_of(reader, sample.data) for sample in samples]
    assert len(items) == 200
    for t in items:
        assert t.next_observation.tolist() == [t.observation[0], t.observation[1] + 1]
        assert t.discount == (0 if t.next_observation[1] == 3 else 1)
    evaluated = (paths.episodes / "eval_0.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1:3] for row in evaluated] == [["4", "40"]] * 3
    assert list((paths.train_summaries / "worker_0").glob("events*"))
    assert list((paths.eval_summaries / "worker_0").glob("events*"))


def test_a_stop_before_the_server_answers_ends_the_worker(tmp_path):
    paths = make_experiment(tmp_path / "exp")
    write_run_spec(paths)
    with serving(tmp_path / "reverb") as replay:
        pass  # it has ended again
    stop = Stop()
    threading.Timer(0.5, lambda: setattr(stop, "is_set", True)).start()
    assert sac_collect.collect(str(paths.root), replay.address, 0, 60.0, stop) == EXIT_STOPPED


@pytest.fixture
def env_seeds(monkeypatch):
    """Those that environments are made with."""
    seeds = []

    def make(params, seed, *worker):
        seeds.append(seed)
        return EpisodeStepEnv()

    monkeypatch.setattr(worker_environments, "make_collect_environment", make)
    monkeypatch.setattr(worker_environments, "make_eval_environment", make)
    return seeds


def test_a_worker_that_is_started_again_has_environments_with_other_seeds(tmp_path, env_seeds):
    paths, stop = make_experiment(tmp_path / "exp"), Stop()
    write_run_spec(paths)
    stop.is_set = True
    with serving(tmp_path / "reverb") as replay:
        for env_step in (0, 30):
            log = EpisodeLog(paths.episodes, "collect", 0)
            assert log.env_step == env_step
            sac_collect.collect(str(paths.root), replay.address, 0, 60.0, stop)
            log.append(Episode(0.0, 10, None, True), iteration=0, train_step=0, env_step=30)
    assert len(set(env_seeds)) == 2 * 2  # collect and eval


@pytest.mark.parametrize("deterministic, num_seeds", [(False, 3), (True, 1)])
def test_a_worker_that_dies_before_its_first_episode_has_other_seeds_in_each_life(
    tmp_path, monkeypatch, env_seeds, deterministic, num_seeds
):
    """Otherwise the buffer fills with copies of one episode."""
    paths, stop, policy_seeds = make_experiment(tmp_path / "exp"), Stop(), []
    write_run_spec(paths)
    stop.is_set = True

    def make_policy(action_spec, seed):
        policy_seeds.append(seed)
        return RandomPolicy(action_spec, seed)

    monkeypatch.setattr(sac_collect, "RandomPolicy", make_policy)
    run, draws = load_run(str(paths.root)), []
    with serving(tmp_path / "reverb") as replay:
        for _ in range(3):
            sac_collect.collect(
                str(paths.root), replay.address, 0, 60.0, stop, deterministic=deterministic
            )
            draws.append((random.random(), np.random.random()))
    assert len(set(env_seeds)) == 2 * num_seeds
    assert len(set(policy_seeds)) == len(set(draws)) == num_seeds
    # Those of a first start are what they always were.
    assert env_seeds[0] == derive_seed(run.seed, SeedPurpose.COLLECT_ENV)
    assert policy_seeds[0] == derive_seed(run.seed, SeedPurpose.RANDOM_POLICY)


def test_a_server_that_never_answers_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sac_collect, "SERVER_TIMEOUT_SECS", 0.1)
    with serving(tmp_path / "reverb") as replay:
        client = replay.client()
    with pytest.raises(TimeoutError, match="no answer from the replay server"):
        sac_collect._num_to_fill_fn(5, client, Stop())()


def test_a_worker_that_starts_after_the_end_ends_at_once(tmp_path, monkeypatch):
    paths = make_experiment(tmp_path / "exp")
    paths.finished.touch()
    monkeypatch.setattr(sac_collect, "make_environments", None)
    assert sac_collect.collect(str(paths.root), "localhost:1", 0, 60.0, Stop()) == EXIT_FINISHED


@pytest.fixture
def told(monkeypatch):
    """What `work` tells TensorFlow and `collect`."""
    told = {}
    threading = sac_collect.tf.config.threading
    for kind in ("intra", "inter"):
        setter = functools.partial(told.__setitem__, kind)
        monkeypatch.setattr(threading, f"set_{kind}_op_parallelism_threads", setter)

    def collect(exp_dir, replay_address, worker_id, *others):
        told["worker_id"] = worker_id
        return EXIT_STOPPED

    monkeypatch.setattr(sac_collect, "collect", collect)
    return told


def test_tensorflow_gets_as_many_threads_as_the_worker_has_cpus(told):
    assert sac_collect.work("e", "localhost:1", num_cpus=4, stop=None) == EXIT_STOPPED
    assert (told["intra"], told["inter"]) == (4, 4)


def test_any_number_is_a_workers(told, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "4711")
    sac_collect.work("e", "localhost:1", stop=None)
    assert told["worker_id"] == 4711


@pytest.mark.parametrize("text", ["", "-1", "one", "1.5"])
def test_a_wrong_worker_id_is_refused(told, monkeypatch, text):
    monkeypatch.setenv("SLURM_PROCID", text)
    with pytest.raises(ConfigError, match="SLURM_PROCID is .*; expected an integer from 0 on"):
        sac_collect.work("e", "localhost:1", stop=None)


STOCK_AGENT = """
    def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
        from tf_agents.agents.ddpg import actor_network, critic_network
        from tf_agents.agents.td3 import td3_agent
        return td3_agent.Td3Agent(
            time_step_spec, action_spec,
            actor_network.ActorNetwork(obs_spec, action_spec, fc_layer_params=(4,)),
            critic_network.CriticNetwork((obs_spec, action_spec)),
            actor_optimizer=None, critic_optimizer=None, exploration_noise_std=1.0,
            train_step_counter=train_step,
        )
"""


@pytest.mark.parametrize(
    "class_body, pads", [("pass", True), (STOCK_AGENT, False)], ids=["our agent", "stock agent"]
)
def test_only_an_agent_that_masks_padding_gets_it(tmp_path, monkeypatch, class_body, pads):
    body = f"recurrent = True\n    recurrent_sequence_length = 3\n    {class_body}"
    paths, given, stop = make_experiment(tmp_path / "exp", body), [], Stop()
    write_run_spec(paths, pads)
    stop.is_set = True

    def make_adder(client, codec, layout, *arguments, **more):
        given.append(layout.pads_episodes)
        return Adder(client, codec, layout, *arguments, **more)

    monkeypatch.setattr(sac_collect, "Adder", make_adder)
    with serving(tmp_path / "reverb") as replay:
        sac_collect.collect(str(paths.root), replay.address, 0, 60.0, stop)
    assert given == [pads]


@pytest.mark.parametrize(
    "class_body, obstacle", [("pass", None), (STOCK_AGENT, "no ActorPolicy of TF-Agents")]
)
def test_a_worker_that_acts_in_tensorflow_says_so(tmp_path, capfd, class_body, obstacle):
    paths, stop = make_experiment(tmp_path / "exp", class_body), Stop()
    write_run_spec(paths)
    stop.is_set = True
    with serving(tmp_path / "reverb") as replay:
        sac_collect.collect(str(paths.root), replay.address, 0, 60.0, stop)
    reported = read_report(paths, "worker_0").obstacle
    assert (reported is None) == (obstacle is None)
    printed = capfd.readouterr().out
    assert ("Acts in TensorFlow, not in NumPy, because it is a" in printed) == bool(obstacle)
    assert obstacle is None or obstacle in reported


LEARNING_ENVIRONMENT = """
    def env_ctor(self, *args, seed=None, **kwargs):
        environment = super().env_ctor()
        environment.obs_rms = [0.0, 1.0]
        return environment
"""


def test_a_worker_says_what_a_user_should_know_of_the_environment(tmp_path, capfd):
    paths, stop = make_experiment(tmp_path / "exp", LEARNING_ENVIRONMENT), Stop()
    write_run_spec(paths)
    stop.is_set = True
    with serving(tmp_path / "reverb") as replay:
        sac_collect.collect(str(paths.root), replay.address, 0, 60.0, stop)
    shown = "THE ENVIRONMENT LEARNS: EpisodeStepEnv.obs_rms"
    assert read_report(paths, "worker_0").remark == shown
    assert "NOTE: The environment learns statistics while it runs" in capfd.readouterr().out


@pytest.fixture
def acting_tape(monkeypatch):
    """What each worker's policy does from the same weights, and what the generators draw."""
    tape = []

    class ActingWorker:
        """Notes four actions and a draw of each generator."""

        def __init__(self, run, environments, policies, *others, **more):
            self._environment, self._policies = environments.collect, policies

        def run(self, num_to_fill, fill_policy):
            policy = self._policies.collect
            time_step, state = self._environment.reset(), policy.initial_state()
            actions = [float(policy.action(time_step, state)[0][0]) for _ in range(4)]
            tape.append((actions, random.random(), np.random.random()))
            return EXIT_FINISHED

    monkeypatch.setattr(sac_collect, "Worker", ActingWorker)
    monkeypatch.setattr(sac_collect, "LockStepWorker", ActingWorker)
    return tape


def test_a_stock_agent_acts_as_the_seed_says_and_each_worker_differently(tmp_path, acting_tape):
    paths = make_experiment(tmp_path / "exp", STOCK_AGENT)
    write_run_spec(paths)
    with serving(tmp_path / "reverb") as replay:
        for worker_id in (0, 0, 1):
            sac_collect.collect(str(paths.root), replay.address, worker_id, 60.0, Stop(), True)
    first, again, other = acting_tape
    assert len(set(first[0])) == 4
    assert first == again
    assert not {*first[0], *first[1:]} & {*other[0], *other[1:]}


def test_a_stock_agent_acts_differently_in_each_life_of_a_worker(tmp_path, acting_tape):
    paths = make_experiment(tmp_path / "exp", STOCK_AGENT)
    write_run_spec(paths)
    with serving(tmp_path / "reverb") as replay:
        for _ in range(2):
            sac_collect.collect(str(paths.root), replay.address, 0, 60.0, Stop())
    first, again = acting_tape
    assert first[0] != again[0] and not {*first[1:]} & {*again[1:]}


def test_each_slot_has_an_environment_with_a_seed_of_its_own(tmp_path, env_seeds):
    run = load_run(str(make_experiment(tmp_path / "exp").root))

    def seed(purpose, **kwargs):
        return derive_seed(5, purpose, **kwargs)

    run.params.envs_per_worker = 4
    made = make_environments(run, 1, seed, SleepingWatchdog())
    assert (made.num_slots, len(made.others), len(made.other_observers)) == (4, 3, 3)
    assert len(set(env_seeds)) == 4 + 1  # and that of evaluation
    assert env_seeds[0] == seed(SeedPurpose.COLLECT_ENV)
    assert made.slots().num_slots == 4
