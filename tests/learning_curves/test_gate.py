"""Each algorithm learns as well as an earlier version did."""

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
