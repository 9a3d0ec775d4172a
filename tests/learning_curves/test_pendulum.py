"""The default run learns what it should, in the time it should take."""

import csv
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "seeds",
    [(11,), pytest.param((12, 13, 14), marks=[pytest.mark.slow, pytest.mark.timeout(1200)])],
)
def test_pendulum_is_solved_by_run_script_within_five_minutes(seeds, tmp_path):
    output = tmp_path / "pendulum.csv"
    given = ",".join(map(str, seeds))
    command = [sys.executable, "benchmarks/solve_pendulum.py", f"--seeds={given}"]

    subprocess.run([*command, f"--output={output}"], cwd=PROJECT, check=True)

    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["seed"]) for row in rows] == list(seeds)
    for row in rows:
        assert float(row["mean_return"]) >= -200, row
        assert float(row["seconds"]) <= 5 * 60, row
