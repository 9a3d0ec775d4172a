import contextlib
import fcntl
import functools
import pathlib
import threading

import pytest
import reverb
from fakes import UNRIVALLED
from replay_fakes import EpisodeStepEnv, Stop, codec_of, make_experiment, write_run_spec

from tfagents_system import sac_replay_buffer
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import EXIT_STOPPED, ConfigError, SupersededError
from tfagents_system.core.process.ports import check_port_is_free, free_port
from tfagents_system.core.programs.program import EXIT_CODE_FILE_VARIABLE
from tfagents_system.core.state.generations import publish_generation
from tfagents_system.core.state.incarnation import CORE, Claims
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.waiting import wait_until
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats
from tfagents_system.services.table_info import table_signature


@contextlib.contextmanager
def serving(paths):
    """Runs the program in a thread; yields a client."""
    paths.status("replay").unlink(missing_ok=True)
    port, stop, results = free_port(), Stop(), []
    thread = threading.Thread(
        target=lambda: results.append(sac_replay_buffer.serve(str(paths.root), port, stop=stop))
    )
    thread.start()
    try:
        wait_until(paths.status("replay").exists, 60, "the first status")
        yield reverb.Client(f"localhost:{port}")
    finally:
        stop.is_set = True
        thread.join(20)
    assert results == [EXIT_STOPPED]
    check_port_is_free(port)


def add_episode(client, length=7):
    environment = EpisodeStepEnv(ends=[(length, 0.0)])
    adder = Adder(client, codec_of(environment))
    run_episode(environment, RandomPolicy(environment.action_spec(), 0), length, adder.add)
    adder.send()
    assert adder.is_confirmed(timeout_secs=60)


def save_generation(client, paths, train_step):
    unfinished = paths.checkpoints / ".tmp-test"
    unfinished.mkdir()
    pathlib.Path(client.checkpoint()).rename(unfinished / "replay")
    publish_generation(unfinished, paths.checkpoints, train_step, {}, UNRIVALLED)


@pytest.fixture
def paths(tmp_path):
    paths = make_experiment(tmp_path / "exp")
    write_run_spec(paths)
    return paths


def test_it_reports_items_and_limits_until_the_stop(paths):
    with serving(paths) as client:
        add_episode(client)

        def items():
            return read_report(paths, "replay").transitions

        wait_until(lambda: items() == 7, 60, "7 items in the status")
    report = read_report(paths, "replay")
    assert (report.phase, report.capacity, report.fill_target) == ("serving", 1000, 40)


def test_it_waits_for_the_runs_spec_and_runs_nothing_of_the_users(paths):
    paths.run_spec.rename(paths.root / "later.json")
    for file in (paths.params, paths.running_params):
        file.write_text("raise RuntimeError('not to be run')")
    port, stop = free_port(), Stop()
    thread = threading.Thread(
        target=sac_replay_buffer.serve, args=(str(paths.root), port), kwargs={"stop": stop}
    )
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    check_port_is_free(port)
    (paths.root / "later.json").rename(paths.run_spec)
    wait_until(paths.status("replay").exists, 60, "the first status")
    (column,) = table_signature(
        reverb.Client(f"localhost:{port}"), EXPERIENCE_TABLE, timeout_secs=60
    )
    assert column.shape == [2, 6]  # a transition is two steps; EpisodeStepEnv has six numbers
    stop.is_set = True
    thread.join(20)


def test_a_stop_cuts_the_wait_for_the_runs_spec(paths):
    paths.run_spec.unlink()
    stop = Stop()
    stop.is_set = True
    assert sac_replay_buffer.serve(str(paths.root), free_port(), stop=stop) == EXIT_STOPPED
    assert not paths.status("replay").exists()


def test_it_starts_from_the_newest_intact_generation(paths, capsys):
    with serving(paths) as client:
        add_episode(client)
        save_generation(client, paths, 10)
        add_episode(client)
        save_generation(client, paths, 20)
    with serving(paths) as client:
        assert experience_stats(client, timeout_secs=60) == (14, 14)
    (paths.checkpoints / "0000000020/replay/DONE").unlink()
    with serving(paths) as client:
        assert experience_stats(client, timeout_secs=60) == (7, 7)
    assert "0000000020 is damaged: " in capsys.readouterr().out


def test_a_superseded_server_ends_and_a_new_one_begins_nothing(paths):
    claims = Claims(paths.incarnations)
    incarnation = claims.claim(CORE)
    errors, port = [], free_port()

    def serve():
        try:
            sac_replay_buffer.serve(str(paths.root), port, incarnation=incarnation, stop=Stop())
        except SupersededError as error:
            errors.append(str(error))

    thread = threading.Thread(target=serve)
    thread.start()
    wait_until(paths.status("replay").exists, 60, "the first status")
    claims.claim(CORE)
    thread.join(20)
    serve()  # as its supervise would
    assert ["(number 1)" in error for error in errors] == [True, True]


def test_it_never_starts_empty_when_there_are_generations(paths):
    with serving(paths) as client:
        save_generation(client, paths, 10)
    (paths.checkpoints / "0000000010/replay/DONE").unlink()
    with pytest.raises(ConfigError, match="Every checkpoint in .* is damaged"):
        sac_replay_buffer.serve(str(paths.root), free_port(), stop=Stop())


def test_being_too_busy_to_count_does_not_end_it(paths, monkeypatch):
    with serving(paths) as client:
        add_episode(client)
        wait_until(lambda: read_report(paths, "replay").transitions == 7, 60, "7 items")
        num_refused = []

        def refuse(client, timeout_secs):
            num_refused.append(1)
            raise TimeoutError("no answer from the replay server")

        monkeypatch.setattr(sac_replay_buffer, "experience_stats", refuse)
        wait_until(lambda: len(num_refused) >= 2, 60, "two reports")
        assert experience_stats(client, timeout_secs=60) == (7, 7)
        assert read_report(paths, "replay").transitions == 7


def test_after_a_stop_it_serves_a_learner_that_outlives_its_supervise(paths, monkeypatch):
    learner = paths.services / "learner"
    learner.mkdir(parents=True)
    exit_code_file = str(paths.services / "replay" / "exit_code")
    monkeypatch.setenv(EXIT_CODE_FILE_VARIABLE, exit_code_file)
    port, stop = free_port(), Stop()
    serve = functools.partial(sac_replay_buffer.serve, str(paths.root), port, stop=stop)
    thread = threading.Thread(target=serve)
    with (learner / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread.start()
        wait_until(paths.status("replay").exists, 60, "the first status")
        stop.is_set = True
        thread.join(sac_replay_buffer.SIGNAL_SECS + 0.5)
        client = reverb.Client(f"localhost:{port}")
        assert pathlib.Path(client.checkpoint(), "DONE").is_file()
    thread.join(5)
    assert not thread.is_alive()
    check_port_is_free(port)


@pytest.mark.parametrize(
    "setting, message",
    [
        ("update_ratio = 'auto'", "update_ratio is 'auto'; expected 'fixed' in a deterministic"),
        ("keep_interventions = True", "keep_interventions is True; expected False in a determin"),
    ],
)
def test_a_deterministic_run_has_a_fixed_ratio_and_no_person(tmp_path, setting, message):
    paths = make_experiment(tmp_path / "exp")
    for file in (paths.params, paths.running_params):
        file.write_text(f"{file.read_text().rstrip()}\n    {setting}\n")
    write_run_spec(paths)
    with pytest.raises(ConfigError, match=message):
        sac_replay_buffer.serve(str(paths.root), free_port(), deterministic=True, stop=Stop())
