import sys

import psutil
import pytest

from benchmarks.harness import ProgramError, measure, read_records, replace_records, run_pinned
from benchmarks.measurements import Case

CASE = Case("E", 1, {name: [name, "--seed={repeat}"] for name in ("ours", "sbx", "sb3")}, 5.0)


class Tape:
    """A runner that records commands and returns their number."""

    def __init__(self):
        self.commands = []

    def __call__(self, command, num_cores, deadline_secs):
        assert (num_cores, deadline_secs) == (1, 5.0)
        self.commands.append(" ".join(command))
        return [{"metric": "m", "value": len(self.commands), "unit": "s"}]


def test_measure_lets_contestants_take_turns():
    tape = Tape()

    records = list(measure("name", [CASE], [1, 2], tape))

    assert tape.commands == [
        "ours --seed=1", "sbx --seed=1", "sb3 --seed=1",
        "ours --seed=2", "sbx --seed=2", "sb3 --seed=2",
    ]  # fmt: skip
    assert [(r["contestant"], r["repeat"], r["value"]) for r in records] == [
        ("ours", 1, 1), ("sbx", 1, 2), ("sb3", 1, 3), ("ours", 2, 4), ("sbx", 2, 5), ("sb3", 2, 6),
    ]  # fmt: skip


def test_measure_after_a_failure_goes_on_with_the_next_contestant():
    def run_program(command, num_cores, deadline_secs):
        if command[0] == "sbx":
            raise ProgramError("boom")
        return [{"metric": "m", "value": 1, "unit": "s"}]

    records = list(measure("name", [CASE], [1], run_program))

    assert [(r["contestant"], r["value"], r.get("error")) for r in records] == [
        ("ours", 1, None), ("sbx", None, "boom"), ("sb3", 1, None),
    ]  # fmt: skip


def test_run_pinned_returns_the_json_lines_among_others():
    program = "import os; print('noise'); print('{\"cpus\": %d}' % len(os.sched_getaffinity(0)))"

    assert run_pinned([sys.executable, "-c", program], 1, 30.0) == [{"cpus": 1}]


def test_run_pinned_with_a_failing_program_shows_the_end_of_its_errors():
    with pytest.raises(ProgramError, match="exit code 3: went wrong"):
        run_pinned([sys.executable, "-c", "import sys; sys.stderr.write('went wrong'); exit(3)"],
                   1, 30.0)  # fmt: skip


def test_run_pinned_past_the_deadline_ends_the_program_and_its_children(tmp_path):
    noted = tmp_path / "pid"
    program = f"""
import pathlib, subprocess
child = subprocess.Popen(["sleep", "4321"])
pathlib.Path({str(noted)!r}).write_text(str(child.pid))
child.wait()
"""

    with pytest.raises(ProgramError, match="did not end within 5 s"):
        run_pinned([sys.executable, "-c", program], 1, 5.0)

    pid = int(noted.read_text())  # a process that has ended meanwhile has no command line
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.pid == pid and p.info["cmdline"]]


def test_run_pinned_with_too_few_cores_says_so():
    with pytest.raises(ProgramError, match="needs 4097 cores, this job has"):
        run_pinned(["true"], 4097, 1.0)


def record(name, environment, repeat, value):
    return {
        "name": name, "environment": environment, "cores": 2, "repeat": repeat, "value": value
    }  # fmt: skip


def test_replace_records_keeps_those_of_other_cases(tmp_path):
    path = tmp_path / "benchmarks.jsonl"
    replace_records(path, [record("a", "E", 1, 1), record("a", "F", 1, 2), record("b", "E", 1, 3)])

    replace_records(path, [record("a", "E", 1, 4)])

    assert read_records(path) == [
        record("a", "F", 1, 2), record("b", "E", 1, 3), record("a", "E", 1, 4)
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [((1,), [(1, "new")]), ((2,), [(1, "old"), (2, "new")]),
     ((3, 4), [(1, "old"), (2, "old"), (3, "new"), (4, "new")])],
)  # fmt: skip
def test_replace_records_keeps_earlier_repeats_only(repeats, expected, tmp_path):
    path = tmp_path / "benchmarks.jsonl"
    replace_records(path, [record("a", "E", repeat, "old") for repeat in (1, 2, 3)])

    replace_records(path, [record("a", "E", repeat, "new") for repeat in repeats])

    assert [(r["repeat"], r["value"]) for r in read_records(path)] == expected


def test_programs_do_not_inherit_proxies(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://localhost:1")

    program = "import json, os; print(json.dumps(dict(os.environ)))"
    (environ,) = run_pinned([sys.executable, "-c", program], 1, 30.0)
    assert "https_proxy" not in environ
    assert environ["OMP_NUM_THREADS"] == "1"
