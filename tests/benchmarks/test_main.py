import pathlib
import re

import pytest

from benchmarks import harness
from benchmarks.__main__ import main, run_measurement, select_cases
from benchmarks.measurements import TARGETS, Case, Commands, make_measurements
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import with_arguments

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
NAMES = (
    "learner, image_learner, collection, loop, protection, journal, pool, precision, startup, "
    "scaling, hosts, replay, solve"
)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lerner", "loop"], f"NAMES is 'lerner'; expected one of {NAMES}."),
        (["--repeats", "0"], "--repeats is '0'; expected an integer >= 1."),
        (
            ["--repeats", "2", "--first_repeat", "3"],
            "--first_repeat is 3; expected 1 to --repeats, 2.",
        ),
        (["--fast"], "--fast is not a flag."),
        (
            ["--environment", "Pendulum", "loop", "solve"],
            "--environment is Pendulum; loop, solve measure on MinitaurBulletEnv-v0, Pendulum-v1; "
            "there are more with --full.",
        ),
        (
            ["solve", "--contestant", "ours", "sbx2"],
            "--contestant is sbx2; expected one of ours; sb3; sbx.",
        ),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(argv, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        with_arguments(main, ["benchmarks/run.sh", *argv])()


def test_no_name_means_all():
    assert list(select_cases((), None, full=False)) == NAMES.split(", ")


def test_one_environment_of_a_measurement_can_be_measured_alone():
    (case,) = select_cases(("solve",), "HalfCheetahBulletEnv-v0", full=True)["solve"]
    assert case.environment == "HalfCheetahBulletEnv-v0"
    assert [case.environment for case in select_cases(("solve",), None, full=True)["solve"]] == [
        "Pendulum-v1", "HalfCheetahBulletEnv-v0",
        "HopperBulletEnv-v0", "HalfCheetahBulletEnv-v0, defaults",
    ]  # fmt: skip


def test_a_measurement_that_is_cut_short_keeps_and_reports_what_it_has(tmp_path, monkeypatch):
    def run_pinned(command, num_cores, deadline_secs):
        if command == ["sbx", "2"]:
            raise SystemExit(130)
        return [{"metric": "env_steps_per_sec", "value": 1234.5, "unit": "env steps/s"}]

    monkeypatch.setattr(harness, "run_pinned", run_pinned)
    case = Case("Pendulum-v1", 1, {name: [name, "{repeat}"] for name in ("ours", "sbx")})

    with pytest.raises(SystemExit):
        run_measurement("loop", [case], [1, 2, 3], tmp_path)

    records = harness.read_records(tmp_path / "benchmarks.jsonl")
    assert [(record["contestant"], record["repeat"]) for record in records] == [
        ("ours", 1), ("sbx", 1), ("ours", 2),
    ]  # fmt: skip
    assert "1,234" in (tmp_path / "benchmarks.md").read_text()
    assert not list(tmp_path.glob(".*"))


def test_a_measurement_without_the_named_contestants_runs_nothing_and_keeps_its_values(
    tmp_path, monkeypatch
):
    ran = []

    def run_pinned(command, num_cores, deadline_secs):
        ran.append(command)
        return [{"metric": "env_steps_per_sec", "value": 1234.5, "unit": "env steps/s"}]

    monkeypatch.setattr(harness, "run_pinned", run_pinned)
    case = Case("Pendulum-v1", 1, {"ours": ["ours"]})
    assert run_measurement("loop", [case], [1], tmp_path)
    before = harness.read_records(tmp_path / "benchmarks.jsonl")

    assert run_measurement("loop", [case], [1], tmp_path, contestants=["sbx"])
    assert ran == [["ours"]]
    assert harness.read_records(tmp_path / "benchmarks.jsonl") == before
    assert "1,234" in (tmp_path / "benchmarks.md").read_text()


def test_resuming_does_what_is_missing_or_has_failed_and_keeps_all_values(tmp_path, monkeypatch):
    fails, done = {("sbx", "1"), ("ours", "2")}, []

    def run_pinned(command, num_cores, deadline_secs):
        done.append(tuple(command))
        if tuple(command) in fails:
            raise harness.ProgramError("killed")
        return [{"metric": "mean_return", "value": len(done), "unit": "return"}]

    monkeypatch.setattr(harness, "run_pinned", run_pinned)
    case = Case("Pendulum-v1", 1, {name: [name, "{repeat}"] for name in ("ours", "sbx")})
    other = Case("Pendulum-v1", 2, {"ours": ["other"]})
    assert run_measurement("precision", [other], [1], tmp_path)
    assert not run_measurement("precision", [case], [1, 2], tmp_path)
    done.clear()
    fails.clear()

    assert run_measurement("precision", [case], [1, 2, 3], tmp_path, resume=True)

    assert done == [("sbx", "1"), ("ours", "2"), ("ours", "3"), ("sbx", "3")]
    runs = [
        (record["cores"], record["contestant"], record["repeat"])
        for record in harness.read_records(tmp_path / "benchmarks.jsonl")
    ]
    repeats = [(1, contestant, repeat) for contestant in ("ours", "sbx") for repeat in (1, 2, 3)]
    assert sorted(runs) == sorted([(2, "ours", 1), *repeats])
    done.clear()
    assert run_measurement("precision", [case], [1, 2, 3], tmp_path, resume=True)
    assert done == []


def test_contestants_can_be_measured_alone_and_the_values_of_the_others_stay(tmp_path, monkeypatch):
    values = {"ours": 1.0, "ours, td3": 2.0, "sbx": 3.0}

    def run_pinned(command, num_cores, deadline_secs):
        return [{"metric": "mean_return", "value": values[command[0]], "unit": "return"}]

    monkeypatch.setattr(harness, "run_pinned", run_pinned)
    case = Case("Pendulum-v1", 1, {name: [name] for name in values})
    run_measurement("solve", [case], [1, 2], tmp_path)
    values.update({"ours": 10.0, "sbx": 30.0})

    run_measurement("solve", [case], [1], tmp_path, contestants=("sbx",))

    records = harness.read_records(tmp_path / "benchmarks.jsonl")
    assert sorted((r["contestant"], r["repeat"], r["value"]) for r in records) == [
        ("ours", 1, 1.0), ("ours", 2, 1.0), ("ours, td3", 1, 2.0), ("ours, td3", 2, 2.0),
        ("sbx", 1, 30.0),
    ]  # fmt: skip


def test_precision_compares_all_arithmetics_for_200_000_env_steps():
    for case in make_measurements(Commands(""))["precision"]:
        assert list(case.commands) == ["ours, float32", "ours, bfloat16", "ours, int16"]
        for contestant, command in case.commands.items():
            arithmetic = contestant.split(", ")[1]
            assert f"--binding=TrainParams.matmul_precision = '{arithmetic}'" in command
            assert "--env_steps=200000" in command and "--seed={repeat}" in command


@pytest.mark.parametrize("is_full", [False, True])
def test_every_command_names_a_program_that_exists(is_full):
    for cases in make_measurements(Commands("peers-python"), is_full).values():
        for case in cases:
            for command in case.commands.values():
                package, *module = command[2].split(".")
                assert package == "benchmarks"
                assert BENCHMARKS.joinpath(*module).with_suffix(".py").is_file()


def test_targets_are_of_measurements_that_exist():
    assert {name for name, *_ in TARGETS} <= set(make_measurements(Commands("")))


def test_lock_file_names_exact_versions_and_nothing_else():
    lines = (BENCHMARKS / "requirements-peers.lock").read_text().splitlines()
    requirements = [line for line in lines if not line.startswith("#")]

    assert requirements[0] == "torch==2.13.0"
    assert [line for line in requirements if line.count("==") != 1 or ":" in line] == []
