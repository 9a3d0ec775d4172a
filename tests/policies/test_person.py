"""A person's keys and gamepad as actions."""

import numpy as np
import pytest
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.films.inputs import input_names
from tfagents_system.policies.person import DROP, END, Controls

TWO = array_spec.BoundedArraySpec([2], np.float32, [-2.0, 0.0], [2.0, 1.0])
FOUR_CHOICES = array_spec.BoundedArraySpec([], np.int64, 0, 3)
NESTED = {
    "arm": array_spec.BoundedArraySpec([1], np.float32, -np.inf, np.inf),
    "gear": array_spec.BoundedArraySpec([], np.int32, 1, 3),
}


def controls_of(spec, *texts, has_gamepad=False):
    return Controls(spec, texts, input_names(has_gamepad), has_gamepad)


def test_arrows_push_continuous_components_to_their_bounds():
    controls = controls_of(TWO)
    assert controls.action({}).tolist() == [0, 0]
    assert controls.action({"left": 1.0, "up": 1.0}).tolist() == [-2, 1]
    assert controls.action({"left": 1.0, "right": 1.0}).tolist() == [-2 + 2, 0]
    assert controls.action({"a": 1.0}).tolist() == [0, 0]  # does nothing
    assert controls.action({"up": 1.0}).dtype == np.float32
    assert controls.lines() == [
        "left: action[0] = -2",
        "right: action[0] = 2",
        "down: action[1] = 0",
        "up: action[1] = 1",
        "nothing: action[0] = 0, action[1] = 0",
        "return: ends the episode, and keeps it",
        "backspace: drops the episode",
    ]


def test_a_stick_pushes_as_far_as_it_is_pushed_and_keys_add_to_it():
    controls = controls_of(TWO, has_gamepad=True)
    action = controls.action({"axis0neg": 0.25, "axis1neg": 0.5})
    assert action.tolist() == [0.25 * -2, 0.5 * 1]  # up is negative
    assert controls.action({"axis0pos": 0.75, "right": 1.0}).tolist() == [2, 0]  # within bounds


def test_digits_and_buttons_choose_among_integers_and_the_newest_counts():
    controls = controls_of(FOUR_CHOICES, has_gamepad=True)
    assert controls.action({}) == 0
    assert controls.action({"2": 1.0}) == 2
    assert controls.action({"2": 1.0, "button3": 1.0}) == 3
    assert controls.action({"button3": 1.0, "2": 1.0}) == 2
    assert controls.action({"2": 1.0}).dtype == np.int64


def test_of_three_choices_the_middle_one_is_rest_and_nests_have_their_leaves():
    controls = controls_of(NESTED)
    rest = controls.action({})
    assert (rest["arm"].tolist(), rest["gear"]) == ([0], 2)
    pushed = controls.action({"right": 1.0, "down": 1.0})  # a pair of keys for each component
    assert (pushed["arm"].tolist(), pushed["gear"]) == ([1], 1)
    assert controls.action({"2": 1.0})["gear"] == 3  # the third choice


def test_a_forbidden_choice_becomes_the_first_allowed_one():
    controls = controls_of(FOUR_CHOICES)
    observation = {"action_mask": np.array([0, 0, 1, 1], np.uint8)}
    assert [controls.action(held, observation) for held in ({}, {"1": 1.0}, {"3": 1.0})] == [
        2,
        2,
        3,
    ]


def test_bindings_replace_the_defaults():
    controls = controls_of(TWO, "space=1:0.5", "j=0:-1", "j=1:1", "none=0:0.25", "q=drop")
    assert controls.action({}).tolist() == [0.25, 0]
    assert controls.action({"space": 1.0}).tolist() == [0.25, 0.5]
    assert controls.action({"j": 1.0}).tolist() == [-1, 1]
    assert controls.action({"left": 1.0}).tolist() == [0.25, 0]
    assert controls.commands({"q"}) == {DROP}
    assert controls.commands({"return", "j"}) == {END}
    only_commands = controls_of(TWO, "button7=end", has_gamepad=True)
    assert only_commands.action({"left": 1.0}).tolist() == [-2, 0]
    assert only_commands.commands({"button7"}) == {END}


@pytest.mark.parametrize(
    "spec, text, message",
    [
        (TWO, "left", "--keys has 'left'; expected KEY=VALUE, KEY=COMPONENT:VALUE"),
        (TWO, "lefd=0:1", "'lefd' is not a key. Did you mean left"),
        (TWO, "button0=0:1", "'button0' is not a key"),  # of a keyboard
        (TWO, "left=1", "2 components: say which, as KEY=COMPONENT:VALUE, from 0 to 1"),
        (TWO, "left=2:1", "2 components; expected 0 to 1"),
        (TWO, "left=0:-3", r"expected a number from -2 to 2 for action\[0\]"),
        (TWO, "left=0:nan", r"expected a number from -2 to 2 for action"),
        (TWO, "left=one:1", "expected KEY=VALUE"),
        (FOUR_CHOICES, "left=0.5", "expected an integer from 0 to 3 for action"),
        (FOUR_CHOICES, "none=end", "expected KEY=VALUE"),
    ],
)
def test_wrong_bindings_are_refused_by_words(spec, text, message):
    with pytest.raises(ConfigError, match=message):
        controls_of(spec, text)
