"""The corridor with a key and a door."""

import numpy as np

from tfagents_system.tasks.key_door import KeyDoor

BACK, AHEAD = 0, 1


def outcomes(actions):
    env = KeyDoor(reach=2)
    env.reset()
    return [env.step(action) for action in actions]


def cells(place, has_key):
    expected = np.zeros(2 * 5, np.float32)
    expected[5 * has_key + place] = 1
    return expected


def test_the_door_pays_and_ends_the_episode_with_the_key():
    steps = outcomes([BACK] * 2 + [AHEAD] * 4)
    assert [reward for _, reward, _, _ in steps] == [0] * 5 + [1]
    assert [is_over for _, _, is_over, _ in steps] == [False] * 5 + [True]
    assert steps[-1][-1] == {"success": True}
    seen = [cells(1, False), *(cells(place, True) for place in range(5))]
    np.testing.assert_array_equal([observation for observation, *_ in steps], seen)


def test_the_door_stays_closed_without_it_until_the_time_limit():
    steps = outcomes([AHEAD] * 6 * 2)
    assert sum(reward for _, reward, _, _ in steps) == 0
    assert [is_over for _, _, is_over, _ in steps] == [False] * 11 + [True]
    assert steps[-1][-1] == {"TimeLimit.truncated": True, "success": False}
    np.testing.assert_array_equal(steps[-1][0], cells(4, False))
