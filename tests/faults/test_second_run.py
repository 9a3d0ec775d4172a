"""Two runs that want the same folder or port, and what dead or unrelated programs hold."""

import socket

import pytest
from faults.recovery import ENDLESS, has_all_moving
from system.tiny_run import TinyRun

from tfagents_system.core.process.ports import free_port
from tfagents_system.core.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture
def make_run(tmp_path):
    runs = []

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        runs.append(TinyRun(folder, ENDLESS))
        runs[-1].set_pace(0.02)
        return runs[-1]

    yield make
    for run in runs:
        run.end()


def in_the_open(port):
    return {"SAC_PRIVATE_NETWORK": "0", "SAC_REVERB_PORT": str(port)}


def assert_goes_on(run, process, programs):
    wait_until(has_all_moving(run), 60, "movement")
    assert process.poll() is None
    assert programs <= set(run.alive())


def stop(run, process):
    process.terminate()
    assert run.await_end(process, timeout_secs=60) == 143
    assert run.alive() == {}


def test_a_second_run_on_the_same_folder_is_refused(make_run):
    run = make_run("a")
    first = run.start(num_workers=2)
    run.await_train_step(1)
    programs = set(run.alive())
    second = run.start(num_workers=2)
    assert run.await_end(second, timeout_secs=60) == 78
    assert f"logs/tiny is in use by another run (process {first.pid} " in run.output
    assert "Traceback" not in run.output
    assert_goes_on(run, first, programs)
    stop(run, first)


def test_a_second_run_on_the_same_port_is_refused(make_run):
    run, other, port = make_run("a"), make_run("b"), free_port()
    first = run.start(num_workers=2, **in_the_open(port))
    run.await_train_step(1)
    programs = set(run.alive())
    assert other.await_end(other.start(**in_the_open(port)), timeout_secs=60) == 78
    assert f"SAC_REVERB_PORT is {port}, which is in use by another program" in other.output
    assert not (other.project / "logs").exists()
    assert_goes_on(run, first, programs)
    stop(run, first)


def test_a_port_of_an_unrelated_program_is_refused_and_left_alone(make_run):
    run = make_run("a")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert run.await_end(run.start(**in_the_open(port)), timeout_secs=60) == 78
        assert f"SAC_REVERB_PORT is {port}, which is in use by another program" in run.output
        assert not (run.project / "logs").exists()
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            server.accept()[0].close()


def test_the_lock_of_a_dead_run_is_taken_over(make_run):
    run = make_run("a")
    first = run.start(num_workers=2)
    run.wait_for(run.generations, 180, "the first generation")
    run.kill_everything()
    first.wait(timeout=10)
    assert run.paths.lock.read_text()  # still says who had it
    saved = run.generations()[0]
    second = run.start(num_workers=2)
    run.await_train_step(saved + 1)
    assert run.restored_steps() == [saved]
    stop(run, second)
