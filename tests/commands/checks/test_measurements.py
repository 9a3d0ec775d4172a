"""Speed and memory of a worker, derived from measurements of one environment, by hand."""

import numpy as np
import pytest
from tf_agents.trajectories import time_step as ts

from tfagents_system.commands.checks.measurements import Measured, acting_secs

SECS = {"env step": 0.008, "acting": 0.001, "writing": 0.0005}


def test_a_single_environment_is_as_fast_as_measured():
    measured = Measured()
    measured.take_speed(SECS, 0.0019, 1, SECS["env step"], SECS["acting"])
    assert measured.step_secs == pytest.approx(0.008 + 0.001 + 0.0005)
    assert measured.greedy_step_secs == pytest.approx(0.008 + 0.001)
    assert measured.cpu_secs == pytest.approx(0.0019)
    measured.take_speed(SECS, 0.02, 1, SECS["env step"], SECS["acting"])  # beside a thread
    assert measured.cpu_secs == measured.step_secs


def test_a_step_of_a_simulator_is_one_of_each_of_its_agents():
    measured = Measured(num_slots=4)
    # Collection has 4 at once, evaluations 2; a call of the policy for 4 takes 1.2 ms.
    measured.take_speed(SECS, 0.0019, 2, 0.012, 0.0012)
    assert measured.simulator_secs == pytest.approx(0.012 / 4)
    assert measured.step_secs == pytest.approx(0.012 / 4 + 0.0012 / 4 + 0.0005)
    assert measured.cpu_secs == pytest.approx(measured.step_secs * 0.0019 / 0.0095)
    assert measured.greedy_step_secs == pytest.approx((0.008 + 0.001) / 2)


def test_environments_beside_each_other_share_only_the_call_of_the_policy():
    measured = Measured(num_slots=2, num_simulators=3)
    measured.take_speed(SECS, 0.0, 1, 0.008, 0.0012)
    assert measured.num_at_once == 2 * 3
    assert measured.step_secs == pytest.approx(0.008 / 2 + 0.0012 / (2 * 3) + 0.0005)


def test_a_call_of_the_policy_is_for_all_slots():
    calls = []

    class Policy:
        def initial_state(self, slot=0):
            return f"of {slot}"

        def actions(self, slots, time_steps, states):
            calls.append((list(slots), len(time_steps), states))
            return [0] * len(slots), states

    assert acting_secs(Policy(), ts.restart(np.zeros(1)), 3) > 0
    assert set(map(str, calls)) == {str(([0, 1, 2], 3, ["of 0", "of 1", "of 2"]))}
