"""The whole system through run_script.sh: it trains, survives kills, stops, resumes, ends.

The one that stops a run and goes on with it is no system test by mark: each ./run_tests.sh has it.
"""

import itertools
import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest
import tensorflow as tf
from system.tiny_run import HORIZON, STEPS_PER_ITER, TinyRun

from tfagents_system.core.process.ports import check_port_is_free
from tfagents_system.learning.policy_export import restore_policy

NUM_ITER = 60  # of tiny_run.PARAMS
NUM_TRAIN_STEPS = NUM_ITER * STEPS_PER_ITER
RATIO = STEPS_PER_ITER / HORIZON  # train steps per env step


@pytest.fixture
def make_run(tmp_path):
    runs = []

    def make(**arguments):
        runs.append(TinyRun(tmp_path, **arguments))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


def assert_finished(run, num_train_steps):
    assert json.loads(run.paths.finished.read_text())["train_step"] == num_train_steps
    assert run.generations()[0] == num_train_steps
    assert run.paths.policy_checkpoint(num_train_steps).is_dir()
    assert run.alive() == {}
    check_port_is_free(run.port())


def assert_axes_are_monotonic(run, worker_id):
    """Env steps always grow; train steps fall back only to what a learner has restored."""
    rows = run.episodes("collect", worker_id)
    assert len(rows) > 5
    for row, following in itertools.pairwise(rows):
        assert following["env_step"] > row["env_step"]
        if following["train_step"] < row["train_step"]:
            assert following["train_step"] in run.restored_steps()
    falls = sum(b["train_step"] < a["train_step"] for a, b in itertools.pairwise(rows))
    assert falls <= len(run.restored_steps())


@pytest.mark.system
def test_only_the_thread_that_steps_the_environment_is_woken_at_once(make_run):
    run = make_run()
    run.set_pace(0.1)
    run.start(num_workers=1)
    run.await_train_step(1)

    pid = run.pid("sac_collect.py 0")
    of_grpc = {
        os.sched_getscheduler(int(thread.name))
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()
        if (thread / "comm").read_text() == "nexting_thread\n"
    }
    assert (os.sched_getscheduler(pid), of_grpc) == (os.SCHED_OTHER, {os.SCHED_BATCH})
    for program in ("sac_train.py", "sac_replay_buffer.py"):
        assert os.sched_getscheduler(run.pid(program)) == os.SCHED_BATCH


@pytest.mark.system
@pytest.mark.fault_row("kills")
def test_each_program_comes_back_after_kill_9_and_the_run_finishes(make_run):
    run = make_run()
    run.set_pace(0.1)
    process = run.start(num_workers=2)
    run.wait_for(lambda: run.generations(), 60, "the first generation")
    run.set_pace(0.3)  # the run must not end meanwhile
    phases = set()

    def await_return(program, status, old_pid):
        killed_at = time.time()

        def is_back():
            phases.update(run.status(worker).get("phase") for worker in ("worker_0", "worker_1"))
            return run.pid(program) not in (None, old_pid) and (
                run.status(status).get("written_at", 0) > killed_at
            )

        run.wait_for(is_back, 120, f"the return of {program}")

    phases.clear()
    saved = run.generations()[0]
    await_return("sac_train.py", "learner", run.kill("sac_train.py"))
    assert run.restored_steps() == [saved]
    run.await_train_step(saved + 1)
    await_return("sac_collect.py 1", "worker_1", run.kill("sac_collect.py 1"))
    await_return("sac_replay_buffer.py", "replay", run.kill("sac_replay_buffer.py"))
    assert run.status("replay")["transitions"] >= 4 * HORIZON  # of the checkpoint, not empty
    after = run.train_step()
    assert after < NUM_TRAIN_STEPS
    run.wait_for(lambda: run.train_step() > after, 120, "training with the new replay server")
    run.wait_for(lambda: run.status("learner").get("secs_left"), 120, "a forecast")

    def have_newer_policy():
        return all(run.episodes("collect", k)[-1]["train_step"] > after for k in (0, 1))

    # gRPC tries again after up to 30 s, so this comes before the pace is let go.
    run.wait_for(have_newer_policy, 120, "newer policies in both workers")
    phases.update(run.status(worker).get("phase") for worker in ("worker_0", "worker_1"))

    run.set_pace(0)
    assert run.await_end(process, timeout_secs=60) == 0
    assert_finished(run, NUM_TRAIN_STEPS)
    assert "random fill" not in phases
    for worker_id in (0, 1):
        assert_axes_are_monotonic(run, worker_id)
    starts = {
        service.name: len((service / "starts").read_text().splitlines())
        for service in run.paths.services.iterdir()
    }
    assert starts == {"replay": 2, "learner": 2, "worker_0": 1, "worker_1": 2}
    evaluated = [row["iteration"] for w in (0, 1) for row in run.episodes("eval", w)]
    assert evaluated.count(NUM_ITER) == 2  # the last one, shared by the workers


@pytest.mark.fault_row("stops")
def test_sigterm_saves_everything_and_the_same_command_goes_on(make_run):
    fill = 20 * HORIZON
    run = make_run(more_params="\n    n_buffer_init_episodes = 20\n")
    run.set_pace(0.03)
    process = run.start()
    run.await_train_step(8 * STEPS_PER_ITER)
    items = run.status("replay")["transitions"]
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=60) == 143
    assert run.alive() == {}
    check_port_is_free(run.port())
    stopped_at = run.train_step()
    assert 8 * STEPS_PER_ITER <= stopped_at < NUM_TRAIN_STEPS
    assert run.generations()[0] == stopped_at
    assert not list(run.paths.checkpoints.glob(".tmp-*"))
    first_rows = run.episodes("collect", 0)

    refused = "TrainParams.actor_fc_layer_params = (9,)"
    assert run.await_end(run.start(SAC_GIN_BINDINGS=refused), timeout_secs=60) == 78
    assert "[2, 8] in the checkpoint, [2, 9] now" in run.output
    assert f"New in this start, and not kept: {refused}. Resume without that." in run.output
    assert run.generations()[0] == stopped_at

    params = run.paths.params.read_text()  # the next start is not refused for what the last had
    run.paths.params.write_text(params.replace("n_episodes_in_buffer = 100",
                                               "n_episodes_in_buffer = 140"))  # fmt: skip
    process = run.start()
    run.wait_for(lambda: run.status("replay").get("capacity") == 140 * HORIZON, 60,
                 "the replay server with the new capacity")  # fmt: skip
    assert run.status("replay")["transitions"] >= items
    rows = HORIZON + 1  # of an episode, in blocks of four transitions
    blocks = f"capacity {100 * rows // 4} in the checkpoint, {140 * rows // 4} now"
    assert blocks in run.paths.stdout("replay").read_text()
    run.wait_for(lambda: run.status("learner"), 60, "the learner")
    assert run.train_step() >= stopped_at
    run.set_pace(0)
    assert run.await_end(process, timeout_secs=60) == 0
    assert_finished(run, NUM_TRAIN_STEPS)
    assert run.restored_steps() == [stopped_at]
    assert_axes_are_monotonic(run, 0)
    rows = run.episodes("collect", 0)
    assert rows[: len(first_rows)] == first_rows
    assert min(row["train_step"] for row in rows[len(first_rows) :]) >= stopped_at
    # One fill and one env step per RATIO train steps in both parts together: no second fill.
    num_env_steps = rows[-1]["env_step"]
    # Each of two learners fills its pool and leaves 3 + 2 steps' samples unused, 4 a train step.
    unused = 2 * (fill + 4 * (3 + 2)) / (4 * RATIO)
    ahead = HORIZON + 2 * 48 + unused  # an iteration, and a burst at each end
    assert ahead < fill
    assert abs(num_env_steps - fill - NUM_TRAIN_STEPS / RATIO) <= ahead


@pytest.mark.system
def test_recurrent_networks_train_to_the_end(make_run):
    run = make_run(more_params="""
    num_iter = 8
    checkpoint_period_itrs = 100
    recurrent = True
    recurrent_sequence_length = 5
""")  # fmt: skip
    assert run.await_end(run.start(), timeout_secs=60) == 0
    assert_finished(run, 8 * STEPS_PER_ITER)
    reader = tf.train.load_checkpoint(
        str(run.paths.policy_checkpoint(8 * STEPS_PER_ITER) / "variables" / "variables")
    )
    shapes = reader.get_variable_to_shape_map().values()
    assert any(len(shape) == 2 and shape[1] == 4 * shape[0] for shape in shapes)  # an LSTM
    assert [row["iteration"] for row in run.episodes("eval", 0)] == [8, 8]


@pytest.mark.system
def test_a_stock_agent_trains_to_the_end(make_run):
    run = make_run(more_params="""
    num_iter = 8
    checkpoint_period_itrs = 100

    def agent_ctor(self, train_step, obs_spec, action_spec, time_step_spec):
        import tensorflow as tf
        from tf_agents.agents.ddpg import actor_network, critic_network
        from tf_agents.agents.td3 import td3_agent

        adam = tf.keras.optimizers.legacy.Adam
        return td3_agent.Td3Agent(
            time_step_spec,
            action_spec,
            actor_network.ActorNetwork(obs_spec, action_spec, fc_layer_params=(8,)),
            critic_network.CriticNetwork((obs_spec, action_spec), joint_fc_layer_params=(8,)),
            adam(1e-3),
            adam(1e-3),
            train_step_counter=train_step,
        )
""")  # fmt: skip
    assert run.await_end(run.start(), timeout_secs=60) == 0
    assert_finished(run, 8 * STEPS_PER_ITER)
    greedy = tf.saved_model.load(str(run.paths.policies / "greedy_policy"))
    variables = list(greedy.model_variables)
    before = [variable.numpy() for variable in variables]
    restore_policy(run.paths.policy_checkpoint(8 * STEPS_PER_ITER), variables)
    for variable, value in zip(variables, before, strict=True):
        assert (variable.numpy() == value).all()


@pytest.mark.system
@pytest.mark.fault_row("diverging loss")
def test_training_that_diverges_ends_the_run_and_leaves_everything_as_it_was(make_run):
    rate = "critic_learning_rate = "
    run = make_run(more_params=f"\n    {rate}3e-4\n")
    run.set_pace(0.01)
    first = run.start()
    run.wait_for(run.generations, 60, "the first generation")
    first.terminate()
    assert run.await_end(first, timeout_secs=60) == 143
    saved, policies = run.generations(), run.paths.policy_checkpoints()

    params = run.paths.params.read_text()
    run.paths.params.write_text(params.replace(f"{rate}3e-4", f"{rate}1e30"))
    assert run.await_end(run.start(), timeout_secs=60) == 70

    assert "learner stopped because training diverged (exit code 70)" in run.output
    assert "sac_train.py: training diverged at train step " in run.output
    assert run.generations() == saved
    assert run.paths.policy_checkpoints() == policies
    assert run.alive() == {}
    (path,) = run.paths.root.glob("diverged_*.npz")
    assert f"Its minibatch is in {path}" in run.output
    with np.load(path) as minibatch:
        assert minibatch["observation"].shape == (8, 2)
        assert minibatch["reward"].shape == (8,)

    run.paths.params.write_text(params)
    run.set_pace(0)
    assert run.await_end(run.start(), timeout_secs=60) == 0


@pytest.mark.system
@pytest.mark.fault_row("environment")
def test_environments_that_fail_or_hang_do_no_harm_to_the_run(make_run):
    run = make_run()
    run.set_pace(0.1)
    process = run.start(num_workers=2, SAC_ENV_TIMEOUT_SECS="5")
    run.await_train_step(1)
    first = run.pid("sac_collect.py 0")

    run.set_fault(0, "once")
    run.wait_for(lambda: run.status("worker_0").get("env_failures") == 1, 120, "the failure")
    env_steps = run.status("worker_0")["env_steps"]
    run.wait_for(lambda: run.status("worker_0")["env_steps"] > env_steps + HORIZON, 120,
                 "collection in a new environment")  # fmt: skip
    assert run.pid("sac_collect.py 0") == first
    log = run.paths.stdout("worker_0")
    assert log.read_text().count("(failure 1 of this environment)") == 1
    assert "RuntimeError: the motor is gone" in log.read_text()

    run.set_fault(0, "hang")
    run.wait_for(lambda: run.pid("sac_collect.py 0") not in (None, first), 120, "the watchdog")
    assert "Timeout (0:00:05)!" in log.read_text()
    assert "in _fail_as_asked" in log.read_text()

    run.set_fault(1, "always")
    run.wait_for(lambda: run.status("worker_1").get("phase") == "parked", 120, "parking")
    run.wait_for(lambda: run.status("worker_0").get("phase") == "collecting", 120, "its return")
    run.await_train_step(run.train_step() + STEPS_PER_ITER)

    run.set_pace(0)
    assert run.await_end(process, timeout_secs=60) == 0
    assert_finished(run, NUM_TRAIN_STEPS)


@pytest.mark.system
@pytest.mark.fault_row("environment")
def test_a_run_whose_environments_all_fail_ends_with_the_traceback(make_run):
    run = make_run()
    for worker_id in range(2):
        run.set_fault(worker_id, "always")
    assert run.await_end(run.start(num_workers=2), timeout_secs=150) == 1
    assert "failed again after 4 restarts (exit code 69)" in run.output
    assert "RuntimeError: the motor is gone" in run.output
    assert run.alive() == {}
