"""Each algorithm learns as well as ten runs of an earlier version did."""

import pytest

from benchmarks.learning_gate import GATES, bounds, read_results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SEED = 11  # bounds are of the seeds 1 to 10


@pytest.mark.parametrize("name", GATES)
def test_learning_is_within_the_bounds_of_ten_seeds(name):
    limits = bounds(row for row in read_results() if row["gate"] == name)
    env_steps, mean_return = GATES[name].measure(SEED)
    assert env_steps is not None and env_steps <= limits.env_steps_to_level
    assert mean_return >= limits.mean_return
