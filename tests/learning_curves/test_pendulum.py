"""The default run learns what it should, in the time it should take."""

import csv
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(1200)
def test_pendulum_is_solved_within_five_minutes_from_three_seeds(tmp_path):
    output = tmp_path / "pendulum.csv"
    command = [sys.executable, "benchmarks/solve_pendulum.py", "--seeds=11,12,13"]

    subprocess.run([*command, f"--output={output}"], cwd=PROJECT, check=True)

    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["11", "12", "13"]
    for row in rows:
        assert float(row["mean_return"]) >= -200, row
        assert float(row["seconds"]) <= 5 * 60, row
