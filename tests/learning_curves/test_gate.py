"""Each algorithm learns as well as an earlier version did."""

import json
import math
import subprocess

import pytest

from benchmarks.learning_gate import GATES, RESULTS, bounds, measured_gates
from benchmarks.result_rows import read_rows

SEED = 11  # bounds are of the seeds from 1 to 10


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", measured_gates(read_rows(RESULTS)))
def test_learning_is_within_the_bounds_of_earlier_seeds(name):
    limits = bounds(row for row in read_rows(RESULTS) if row["gate"] == name)
    env_steps, mean_return = GATES[name].measure(SEED)
    assert env_steps <= limits.env_steps_to_level
    assert mean_return >= limits.mean_return


@pytest.mark.parametrize("name", measured_gates(read_rows(RESULTS)))
def test_the_results_give_bounds(name):
    limits = bounds(row for row in read_rows(RESULTS) if row["gate"] == name)
    assert all(math.isfinite(limit) for limit in limits)


@pytest.mark.parametrize(
    ("returns", "env_steps"), [([-300, -199, -150], 2100), ([-300, -250], 2100)]
)
def test_env_steps_to_a_level_are_all_if_it_is_not_reached(returns, env_steps, monkeypatch):
    curve = [[1100 + 1000 * number, value] for number, value in enumerate(returns)]
    printed = json.dumps({"value": returns[-1], "curve": curve})
    done = subprocess.CompletedProcess([], 0, stdout=f"of a run\n{printed}\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert GATES["pendulum sac"].measure(1) == (env_steps, returns[-1])


def test_a_gate_needs_three_seeds():
    rows = [{"gate": "pendulum sac"}] * 3 + [{"gate": "pendulum tqc"}] * 2
    assert measured_gates(rows) == ["pendulum sac"]


def test_bounds_by_hand():
    rows = [{"gate": "pendulum sac", "env_steps_to_level": str(s), "mean_return": str(r)}
            for s, r in ((4000, -160), (5000, -140), (6000, -150))]  # fmt: skip
    width = 6.965 * (1 + 1 / 3) ** 0.5  # of a standard deviation, two degrees of freedom
    limits = bounds(rows)
    assert limits.env_steps_to_level == pytest.approx(5000 + width * 1000)
    assert limits.mean_return == pytest.approx(-150 - width * 10)
    equal = [row | {"env_steps_to_level": "4800"} for row in rows]
    assert bounds(equal).env_steps_to_level == 4800 + GATES["pendulum sac"].eval_period
