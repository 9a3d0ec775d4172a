"""A policy of `load_policy` keeps its memory from call to call."""

import numpy as np
from tf_agents.specs import array_spec

from tfagents_system.interactive import Policy


class Counting:
    """Counts the steps of an episode, as networks do that forget at first steps."""

    def initial_state(self):
        return 0

    def action(self, time_step, state):
        state = 1 if time_step.is_first() else state + 1
        return state, state


def test_only_the_first_call_of_an_episode_is_its_first_step():
    policy = Policy(Counting(), array_spec.ArraySpec([1], np.float32))
    observation = np.zeros(1, np.float32)
    assert [policy(observation) for _ in range(3)] == [1, 2, 3]
    policy.reset()
    assert [policy(observation) for _ in range(2)] == [1, 2]
