"""Logs, reports and names are shown without anything that a terminal would obey."""

import io
import pathlib

import pytest
from report_fakes import learner_report, worker_report, write_report
from rich.console import Console
from run_files import write_run

from tfagents_system.commands.checks.rows import Row, table
from tfagents_system.commands.dashboard import Dashboard
from tfagents_system.commands.list_runs import list_runs
from tfagents_system.comparison.compare import compare
from tfagents_system.comparison.report import report
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.process.ending import print_error
from tfagents_system.launch.local.restart_budget import _describe_failure
from tfagents_system.launch.show.profile import profile
from tfagents_system.launch.show.status import show
from tfagents_system.terminal.lines import Terminal
from tfagents_system.terminal.progress import progress_bar

TITLE = "\x1b]0;owned\x07"  # sets the title of the window
RED = "\x1b[31m"
MARKS = "[/][red]"  # of rich, which would raise, or draw
NAME = f"run{TITLE}{RED}\u202e"


@pytest.fixture
def paths(tmp_path):
    paths = write_run(tmp_path / "logs" / NAME, [1, 5], {"own": f"a{RED}"})
    write_report(paths, learner_report(host=f"h{RED}{MARKS}", phase_secs={f"p{TITLE}": 3.0}))
    write_report(paths, worker_report(0, cpus=f"0{TITLE}", obstacle=f"o{RED}\n{TITLE}"))
    log = paths.root / "stdout" / "worker_0.log"
    log.parent.mkdir()
    log.write_text(f"Traceback\nValueError: {RED}no {TITLE}arm https://me:secret@host\n")
    (paths.root / "stdout" / f"{RED}[red].log").write_text("ValueError: in a name\n")
    return paths


def is_plain(text):
    return all(sign == "\n" or sign.isprintable() for sign in text) and "owned" not in text


def dashboard(paths):
    from tfagents_system.launch.show.status import Watch

    screen = io.StringIO()
    Console(file=screen, width=200).print(Dashboard(paths).draw(Watch(paths).look()))
    print(screen.getvalue())


def compared(paths):
    other = write_run(paths.root.parent / f"other{TITLE}", [2], {"own": f"b{RED}"})
    compare(str(paths.root), str(other.root))


COMMANDS = {
    "status line": lambda paths: show(paths.root),
    "dashboard": dashboard,
    "list": lambda paths: list_runs(paths.root.parent),
    "compare": compared,
    "profile": lambda paths: profile(paths.root, 0.0),
    "report": lambda paths: report(paths.root),
    "error": lambda paths: print_error(["sac"], ConfigError(f"{paths.root} https://a:secret@b")),
    "terminal": lambda paths: Terminal().print(f"{paths.root}\n{TITLE}two"),
    "check": lambda paths: print(table([Row("specs", "WRONG", f"x{RED}", f"y{TITLE}")])),
    "failure": lambda paths: print(
        _describe_failure(pathlib.Path("worker_0"), paths.root / "stdout" / "worker_0.log", 1, 5)
        .partition("\n")[2]
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_is_given_nothing_to_obey(paths, capsys, monkeypatch, command):
    # The status line, which is a program of its own, would take them.
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    monkeypatch.setattr(
        "tfagents_system.launch.show.status.keep_printing_on_full_disk", lambda: None
    )
    COMMANDS[command](paths)
    out, err = capsys.readouterr()
    assert out or err
    assert is_plain(out) and is_plain(err)
    assert "secret" not in out + err


def test_the_fatal_message_of_a_program_is_plain_too(tmp_path):
    log = tmp_path / "log"
    log.write_text(f"=== start 1 of x ===\nsac_train.py: {TITLE}wrong{RED}\n")
    assert is_plain(_describe_failure(pathlib.Path("learner"), log, EXIT_CONFIG, 0))


def test_names_are_no_marks_of_a_progress_bar(monkeypatch):
    monkeypatch.setattr(Console, "is_terminal", True)
    with progress_bar(f"drawing {MARKS}"):
        pass
