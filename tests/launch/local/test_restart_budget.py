import contextlib
import os
import pathlib
import subprocess
import sys
import time
import types
from collections.abc import Iterator

import pytest
from fakes import FakeClock
from small_disk import small_disk

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local import restart_budget
from tfagents_system.launch.local.restart_budget import RestartBudget, read_starts

KILLED = None


@pytest.mark.parametrize(
    ("before", "exit_code", "lived_secs", "expected"),
    [
        (0, 1, 5.0, 1),
        (3, 1, 59.9, 4),
        (3, KILLED, 59.9, 3.1),
        (4, 1, 60.0, 0),  # had been healthy: counting begins anew
        (4, KILLED, 3600.0, 0),
        (4, 69, 3600.0, 5),  # user code failed before the first env step, after an hour of it
        (4, 143, 5.0, 0),  # stopped on request is no failure
    ],
)
def test_quick_failures_counts_only_those_in_a_row(before, exit_code, lived_secs, expected):
    assert RestartBudget().quick_failures(before, exit_code, lived_secs) == expected


@pytest.mark.parametrize(
    ("exit_code", "quick_failures", "delay"),
    [
        (0, 0, None),
        (78, 1, None),
        (70, 1, None),
        (75, 0, None),
        (143, 0, 0.0),
        (KILLED, 0, 0.0),
        (1, 1, 0.0),
        (1, 2, 1.0),
        (KILLED, 1.75, 0.0),
        (KILLED, 3.25, 2.0),
        (1, 4, 4.0),
        (1, 5, None),
        (KILLED, 5, None),
    ],
)
def test_delay_doubles_until_the_budget_is_spent(exit_code, quick_failures, delay):
    assert RestartBudget().delay_secs(exit_code, quick_failures) == delay


@pytest.fixture
def service(tmp_path):
    """A service folder in which a supervise seems to listen."""
    with make_service(tmp_path) as folder:
        yield folder


@contextlib.contextmanager
def make_service(root: pathlib.Path) -> Iterator[pathlib.Path]:
    folder = root / "exp" / "service" / "worker_0"
    (folder / "supervise").mkdir(parents=True)
    (root / "exp" / "stdout").mkdir()
    for pipe in ("ok", "control"):
        os.mkfifo(folder / "supervise" / pipe)
    readers = [os.open(folder / "supervise" / p, os.O_RDWR) for p in ("ok", "control")]
    yield folder
    for reader in readers:
        os.close(reader)


def run_guard(service: pathlib.Path, *command: str) -> subprocess.CompletedProcess[str]:
    argv = [
        "-m",
        "tfagents_system.launch.local.restart_budget",
        str(service),
        log_of(service),
        *command,
    ]
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=20)


def log_of(service: pathlib.Path) -> str:
    return str(service.parent.parent / "stdout" / f"{service.name}.log")


def control_of(service: pathlib.Path) -> str:
    pipe = os.open(service / "supervise" / "control", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(pipe, 10).decode()
    except BlockingIOError:
        return ""
    finally:
        os.close(pipe)


def end_with(
    service: pathlib.Path, exit_code: int | None, failures_before: float, log: str
) -> None:
    """Leaves what a program leaves that began 2 s ago and ended."""
    (service / "starts").write_text(f"{time.monotonic() - 2:.3f} {failures_before}\n")
    if exit_code is not None:
        (service / "exit_code").write_text(f"{exit_code}\n")
    pathlib.Path(log_of(service)).write_text(log)


def test_first_start_becomes_the_program_at_once(service):
    result = run_guard(service, "sh", "-c", "echo it is me; exit 5")
    assert result.returncode == 5
    assert result.stdout.startswith("=== start 1 of worker_0, ")
    assert result.stdout.endswith("it is me\n")
    assert [failures for _, failures in read_starts(service)] == [0]


def test_restart_counts_the_failure_and_one_before_the_program_takes_over_counts_as_its_own(
    service,
):
    end_with(service, KILLED, failures_before=0, log="")
    assert run_guard(service, "false").stdout.startswith("=== start 2 of worker_0, ")
    assert (service / "exit_code").read_text().strip() == "1"
    assert run_guard(service, "false").stdout.startswith("=== start 3 of worker_0, ")
    assert [failures for _, failures in read_starts(service)] == [0, 0.1, 1.1]


def test_restart_waits_for_the_delay(service):
    end_with(service, 1, failures_before=1, log="")
    began = time.monotonic()
    run_guard(service, "true")
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("jump_secs", [-3600.0, 86_400.0])
def test_a_clock_that_is_set_changes_neither_long_lives_nor_short_ones(
    service, monkeypatch, jump_secs
):
    clock, wall_clock = FakeClock(500.0), FakeClock(1e9)
    times = types.SimpleNamespace(
        monotonic=clock, time=wall_clock, sleep=clock.sleep, strftime=time.strftime
    )
    monkeypatch.setattr(restart_budget, "time", times)
    monkeypatch.setattr(restart_budget.os, "execvp", lambda file, arguments: None)
    monkeypatch.setattr(restart_budget, "_end_leftovers", lambda: None)
    monkeypatch.setenv(restart_budget.RESTARTS_VARIABLE, "0")
    for lived_secs in (5.0, 5.0, 70.0, 70.0, 5.0):  # none reports an exit code
        restart_budget.main(["restart_budget", str(service), log_of(service), "true"])
        clock.sleep(lived_secs)
        wall_clock.sleep(lived_secs + jump_secs)
    restart_budget.main(["restart_budget", str(service), log_of(service), "true"])
    assert [failures for _, failures in read_starts(service)] == [0, 1, 2, 0, 0, 1]
    assert not (service / "failure").exists()


def test_finished_program_is_not_started_again(service):
    end_with(service, 0, failures_before=0, log="")
    assert run_guard(service, "echo", "again").stdout == ""
    assert control_of(service) == "x"
    assert not (service / "failure").exists()


def test_wrong_configuration_is_not_started_again_and_its_message_is_kept(service):
    message = "sac_collect.py: config.json: horizon is 0\nsecond line\n"
    log = f"=== start 1 ===\nnoise of a library\n{message}"
    end_with(service, 78, failures_before=0, log=log)
    assert run_guard(service, "echo", "again").stdout == ""
    assert control_of(service) == "x"
    assert (service / "failure").read_text() == (
        "worker_0 cannot run with this configuration (exit code 78). "
        f"Its log is {service.parent.parent}/stdout/worker_0.log\n"
        "  sac_collect.py: config.json: horizon is 0\n  second line\n"
    )


def test_a_refused_start_names_the_settings_that_it_was_the_first_with(service):
    paths = ExperimentPaths(service.parent.parent)
    paths.running.mkdir()
    paths.running_bindings.write_text('["A.b = 1", "TrainParams.discount = 0.9", "C.d = 2"]')
    paths.provenance.write_text('{"gin_bindings": ["A.b = 1"]}')
    end_with(service, 78, failures_before=0, log="=== start 1 ===\nsac_train.py: another agent\n")
    run_guard(service, "echo", "again")
    assert (service / "failure").read_text().splitlines()[1:] == [
        "  sac_train.py: another agent",
        "  New in this start, and not kept: TrainParams.discount = 0.9; C.d = 2. Resume without "
        "that.",
    ]


def test_traceback_of_a_cause_is_shown_with_what_it_caused(service):
    cause = "Traceback (most recent call last):\n  File x\nRuntimeError: no such motor"
    link = "The above exception was the direct cause of the following exception:"
    effect = "Traceback (most recent call last):\n  File y\nEnvironmentFailure: failure 5"
    log = f"=== start 5 ===\n{cause}\n\n{link}\n\n{effect}\n" * 2
    end_with(service, 1, failures_before=4, log=log)
    run_guard(service, "echo", "again")
    _, *words = (service / "failure").read_text().splitlines()
    wanted = [*cause.splitlines(), "", link, "", *effect.splitlines()]
    assert words == [f"  {line}" for line in wanted]


def test_fifth_quick_failure_gives_up_with_the_last_traceback(service):
    traceback = "Traceback (most recent call last):\n  File x\nRuntimeError: no such motor\n"
    log = f"=== start 4 ===\n{traceback}OLD\n=== start 5 ===\nnoise\n{traceback}"
    end_with(service, 1, failures_before=4, log=log)
    assert run_guard(service, "echo", "again").stdout == ""
    assert control_of(service) == "x"
    header, *words = (service / "failure").read_text().splitlines()
    assert header.startswith("worker_0 failed again after 0 restarts (exit code 1). Its log is ")
    assert words == [f"  {line}" for line in traceback.splitlines()]


def test_killed_program_without_a_traceback_shows_the_end_of_its_log(service):
    log = "=== start 1 ===\n" + "".join(f"line {n}\n" for n in range(100))
    end_with(service, KILLED, failures_before=4.9, log=log)
    run_guard(service, "echo", "again")
    header, *words = (service / "failure").read_text().splitlines()
    assert "(killed by a signal)" in header
    assert words == [f"  line {n}" for n in range(60, 100)]


def test_without_supervise_nothing_is_started(tmp_path):
    assert run_guard(tmp_path, "echo", "orphan").stdout == ""
    assert not (tmp_path / "starts").exists()


def test_on_a_full_disk_the_program_starts_and_its_exit_code_arrives():
    write = "from tfagents_system.core.state.files import overwrite; import pathlib, sys; "
    write += "overwrite(pathlib.Path(sys.argv[1]), b'143\\n')"
    with small_disk(1 << 20) as disk, make_service(disk.folder) as service:
        program = (sys.executable, "-c", write, str(service / "exit_code"))
        run_guard(service, "true")
        disk.fill()
        for _ in range(3):
            assert run_guard(service, *program).returncode == 0
            assert (service / "exit_code").read_text() == "143\n"
        assert [failures for _, failures in read_starts(service)] == [0, 1, 0, 0]


def test_starts_that_the_full_disk_does_not_take_are_no_failures():
    with small_disk(1 << 20) as disk, make_service(disk.folder) as service:
        disk.fill()
        for _ in range(6):
            assert run_guard(service, "echo", "started").stdout.endswith("started\n")
        assert read_starts(service) == []
        assert not (service / "failure").exists()


def test_giving_up_on_a_full_disk_leaves_an_empty_failure():
    with small_disk(1 << 20) as disk, make_service(disk.folder) as service:
        end_with(service, 70, failures_before=0, log="")
        disk.fill()
        assert run_guard(service, "echo", "again").stdout == ""
        assert control_of(service) == "x"
        assert (service / "failure").read_text() == ""
