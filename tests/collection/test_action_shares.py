"""Tests the shares of choices of discrete actions in a worker's episodes."""

import numpy as np
import pytest
from tf_agents.specs import array_spec

from tfagents_system.collection.action_shares import MOST_CHOICES, ActionShares

ONE = array_spec.BoundedArraySpec((), np.int64, -1, 1)
BRANCHES = array_spec.BoundedArraySpec((2,), np.int32, [0, 5], [1, 7])
ARM = array_spec.BoundedArraySpec((2,), np.float32, -1, 1)


def shares_of(spec, actions):
    shares = ActionShares(spec)
    for action in actions:
        shares.add(action)
    return shares.numbers


def test_shares_of_one_choice_are_by_its_integers():
    found = shares_of(ONE, [np.int64(1), -1, np.array(1), 1])
    assert found == {"action_share_-1": 1 / 4, "action_share_0": 0.0, "action_share_1": 3 / 4}


def test_shares_of_branches_and_of_leaves_have_their_names():
    first, second = np.array([0, 7], np.int32), np.array([1, 7], np.int32)
    names = ["0_0", "0_1", "1_5", "1_6", "1_7"]
    shares = [1 / 2, 1 / 2, 0.0, 0.0, 1.0]
    found = shares_of(BRANCHES, [first, second])
    assert found == {f"action_share_{n}": s for n, s in zip(names, shares, strict=True)}
    arm, spec = np.zeros(2, np.float32), {"arm": ARM, "grip": ONE, "tools": BRANCHES}
    found = shares_of(spec, [{"arm": arm, "grip": 0, "tools": tools} for tools in (first, second)])
    assert list(found)[:4] == [
        "action_share_grip_-1", "action_share_grip_0", "action_share_grip_1",
        "action_share_tools_0_0",
    ]  # fmt: skip
    assert list(found.values()) == [0.0, 1.0, 0.0, *shares]


@pytest.mark.parametrize(
    "spec", [ARM, array_spec.BoundedArraySpec((), np.int64, 0, MOST_CHOICES)], ids=["box", "many"]
)
def test_there_are_none_of_numbers_and_of_very_many_choices(spec):
    assert shares_of(spec, [np.zeros(spec.shape, spec.dtype)]) == {}


def test_there_are_none_before_the_first_step():
    assert ActionShares(ONE).numbers == {}
