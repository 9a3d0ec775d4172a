"""Environments that start processes, and do what they want when they are closed."""

import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pathlib
import subprocess
import threading
import time
import types

import pytest
from replay_fakes import EpisodeStepEnv

from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.processes import descendants
from tfagents_system.environments import closing
from tfagents_system.environments.closing import close_environment, closed_at_end
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment


class Simulator(EpisodeStepEnv):
    """Starts a process when it is made, and fails at its second step; `at_close` is called."""

    shared = None

    def __init__(self, at_close=None, shares=False):
        super().__init__()
        if shares and Simulator.shared is None:
            Simulator.shared = subprocess.Popen(["sleep", "300"])
        if not shares:
            self.simulator = subprocess.Popen(["sh", "-c", "sleep 300; :"])
        self._at_close, self._num_steps = at_close, 0

    def _step(self, action):
        self._num_steps += 1
        if self._num_steps == 2:
            raise RuntimeError("no such motor")
        return super()._step(action)

    def close(self):
        if self._at_close is not None:
            self._at_close()


class Watchdog:
    def feed(self):
        pass


def params_of(env_ctor):
    hook = staticmethod(lambda: ((), {}))
    return types.SimpleNamespace(
        env_ctor=env_ctor,
        collect_env_args_kwargs=lambda: ((), {}),
        frame_stack=1,
        hook=hook,
        action_repeat=1,
        time_aware=False,
        image_layouts=None,
        entity_observations=(),
        goal_observations=(),
        goal_conditioning_type="hyper",
    )


def make(at_close=None, shares=False):
    return make_collect_environment(params_of(lambda seed: Simulator(at_close, shares)), 1)


def hang():
    threading.Event().wait(60)


def fail():
    raise SystemExit("the window is gone")


@pytest.fixture(autouse=True)
def before():
    """Lists the processes from before the test; nothing else may be left after it."""
    found = descendants()
    yield found
    if Simulator.shared is not None:
        Simulator.shared.kill()
        Simulator.shared.wait()
        Simulator.shared = None
    assert descendants() <= found


@pytest.mark.parametrize(("at_close", "note"), [
    (None, ""),
    (fail, "Note: Simulator.close raised SystemExit: the window is gone"),
    (hang, "Note: Simulator.close has not returned within 0.2 s; it is abandoned."),
], ids=["nothing", "fail", "hang"])  # fmt: skip
def test_an_environment_and_its_simulator_end_in_bounded_time(at_close, note, before, capsys):
    environment = make(at_close)
    assert descendants() - before
    began = time.monotonic()
    close_environment(environment, timeout_secs=0.2 if at_close is hang else 10)
    assert time.monotonic() - began < 10
    assert descendants() <= before
    said = capsys.readouterr().err
    assert said.startswith(note) and bool(said) == bool(note)


def test_the_environment_of_a_block_ends_with_it_whatever_ends_the_block(before):
    with pytest.raises(KeyError), closed_at_end(make()):
        raise KeyError
    assert descendants() <= before


def fails(seed):
    Simulator()
    raise OSError("no display")


def returns_another_thing(seed):
    return [Simulator()]


def has_no_images(seed):
    return Simulator()


@pytest.mark.parametrize(("env_ctor", "message"), [
    (fails, "no display"), (returns_another_thing, "returned a list"),
    (has_no_images, "is an image"),
])  # fmt: skip
def test_what_a_constructor_has_started_ends_if_there_is_no_environment(env_ctor, message, before):
    params = params_of(env_ctor)
    params.frame_stack = 4
    with pytest.raises(Exception, match=message):
        make_collect_environment(params, 1)
    assert descendants() <= before


def steps_until_failure(environment):
    with pytest.raises(EnvironmentFailure):
        environment.reset()
        for _ in range(2):
            environment.step([0.0])


@pytest.mark.parametrize("at_close", [None, fail, hang], ids=["nothing", "fail", "hang"])
def test_of_many_failed_environments_one_simulator_lives_at_most(at_close, before, monkeypatch):
    monkeypatch.setattr(closing.call_close, "__defaults__", (0.1,))
    closed = []
    environment = ReplaceableEnvironment(make(at_close), lambda _: make(at_close), Watchdog())
    for _ in range(4):
        steps_until_failure(environment)
        closed.append(len({p for p in descendants() - before}))
    assert max(closed) <= 2  # the shell and its child, of the one that is to be replaced
    environment.close()
    assert descendants() <= before


def test_a_simulator_that_environments_share_lives_on_when_one_of_them_fails(before):
    environment = ReplaceableEnvironment(make(shares=True), lambda _: make(shares=True), Watchdog())
    for _ in range(3):
        steps_until_failure(environment)
        environment.reset()
        assert Simulator.shared.poll() is None
    environment.close()
    assert Simulator.shared.poll() is not None


class WithWorker(EpisodeStepEnv):
    """Has a worker of multiprocessing; its steps fail if that has ended, or if it `fails`."""

    made = []

    def __init__(self, start_method, fails=False):
        super().__init__()
        self._fails = fails
        context = multiprocessing.get_context(start_method)
        self.worker = context.Process(target=time.sleep, args=(300,), daemon=True)
        self.worker.start()
        self.made.append(self)

    def _step(self, action):
        if self._fails or not self.worker.is_alive():
            raise RuntimeError("no such motor")
        return super()._step(action)


@pytest.fixture
def without_helpers(monkeypatch):
    """Before and after the test, multiprocessing has neither fork server nor resource tracker."""

    def stop():
        multiprocessing.forkserver._forkserver._stop()
        multiprocessing.resource_tracker._resource_tracker._stop()

    stop()
    monkeypatch.setattr(WithWorker, "made", [])
    yield
    stop()


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_helpers_of_multiprocessing_outlive_the_environment_that_has_started_them(
    start_method, without_helpers, before
):
    def make_one(fails=False):
        params = params_of(lambda seed: WithWorker(start_method, fails))
        return make_collect_environment(params, 1)

    collect = ReplaceableEnvironment(make_one(fails=True), lambda _: make_one(), Watchdog())
    evaluation = ReplaceableEnvironment(make_one(), lambda _: make_one(), Watchdog())
    helpers = {multiprocessing.resource_tracker._resource_tracker._pid}
    if start_method == "forkserver":
        helpers.add(multiprocessing.forkserver._forkserver._forkserver_pid)
    steps_until_failure(collect)
    for environment in (collect, evaluation):
        environment.reset()
        environment.step([0.0])
    assert (collect.num_failures, evaluation.num_failures) == (1, 0)
    assert [each.worker.is_alive() for each in WithWorker.made] == [False, True, True]
    for environment in (collect, evaluation):
        environment.close()
    assert {process.pid for process in descendants() - before} == helpers


def test_a_constructor_that_fails_ends_its_workers_but_no_helper_of_multiprocessing(
    without_helpers, before
):
    def fails_late(seed):
        WithWorker("forkserver")
        raise OSError("no display")

    with pytest.raises(Exception, match="no display"):
        make_collect_environment(params_of(fails_late), 1)
    assert not WithWorker.made[0].worker.is_alive()
    assert {process.pid for process in descendants() - before} >= {
        multiprocessing.forkserver._forkserver._forkserver_pid
    }


def test_a_program_that_works_on_without_its_environment_is_not_watched():
    """After a frequent call, too, such as that of a spec, which is watched until the next one."""
    with GUEST.watching(600.0):
        environment = make()
        environment.observation_spec()
        assert GUEST._watchdog.is_fed
        close_environment(environment)
        assert not GUEST._watchdog.is_fed


def test_close_finds_the_working_directory_of_user_code(monkeypatch, tmp_path):
    (tmp_path / "simulator").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("_theirs", "_ours", "_lent"):
        monkeypatch.setattr(GUEST, name, {})
    seen = []
    with GUEST.visit("TrainParams.env_ctor"):
        os.chdir("simulator")
    assert pathlib.Path.cwd() == tmp_path
    close_environment(make(lambda: seen.append(pathlib.Path.cwd())))
    assert seen == [tmp_path / "simulator"]
    assert pathlib.Path.cwd() == tmp_path
