import json

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.curriculum import Curriculum, Ramp


def curriculum_of(text):
    return Curriculum.from_config(json.loads(text), "config.json")


def test_values_are_evenly_spaced_between_the_ends_of_the_range():
    ramp = curriculum_of('{"slope": {"iters": [0, 10, 20, 40], "range": [1.0, 2.5]}}').ramps[
        "slope"
    ]
    assert ramp.iterations == (0, 10, 20, 40)
    assert ramp.values == (1.0, 1.0 + 1.5 / 3, 1.0 + 2 * 1.5 / 3, 2.5)


def test_values_of_an_integer_range_are_truncated_to_integers():
    values = curriculum_of('{"gap": {"iters": [0, 1, 2, 3], "range": [1, 3]}}').ramps["gap"].values
    assert values == (1, 1, 2, 3)  # 1, 1 + 2/3, 1 + 4/3, 3
    assert {type(value) for value in values} == {int}


def test_values_take_the_type_of_the_first_end():
    values = curriculum_of('{"gap": {"iters": [0, 5], "range": [1.0, 3]}}').ramps["gap"].values
    assert values == (1.0, 3.0)
    assert {type(value) for value in values} == {float}


def test_values_of_a_falling_range_fall():
    assert curriculum_of('{"help": {"iters": [0, 1, 2], "range": [4, 0]}}').ramps[
        "help"
    ].values == (
        4,
        2,
        0,
    )


@pytest.mark.parametrize(
    ("iteration", "expected"),
    [
        (0, None),
        (9, None),
        (10, 1.0),
        (11, 1.0),
        (19, 1.0),
        (20, 2.0),
        (29, 2.0),
        (30, 3.0),
        (9**9, 3.0),
    ],
)
def test_value_at_is_that_of_the_last_iteration_reached(iteration, expected):
    assert Ramp((10, 20, 30), (1.0, 2.0, 3.0)).value_at(iteration) == expected


def test_single_iteration_gives_the_low_end_from_there_on():
    curriculum = curriculum_of('{"mass": {"iters": [7], "range": [2.0, 5.0]}}')
    assert [curriculum.state_at(i) for i in (6, 7, 8)] == [{}, {"mass": 2.0}, {"mass": 2.0}]


def test_state_at_holds_only_the_ramps_that_have_begun():
    curriculum = curriculum_of(
        '{"a": {"iters": [0, 10], "range": [0, 1]}, "b": {"iters": [5, 10], "range": [0.0, 1.0]}}'
    )
    assert curriculum.state_at(4) == {"a": 0}
    assert curriculum.state_at(5) == {"a": 0, "b": 0.0}
    assert curriculum.state_at(10) == {"a": 1, "b": 1.0}


def test_state_at_does_not_depend_on_earlier_calls():
    curriculum = curriculum_of('{"a": {"iters": [0, 3, 6], "range": [0, 2]}}')
    iterations = [9, 0, 6, 2, 3, 9, 5]
    assert [curriculum.state_at(i)["a"] for i in iterations] == [2, 0, 2, 0, 1, 2, 1]


def test_empty_section_has_no_state():
    assert curriculum_of("{}").state_at(100) == {}


@pytest.mark.parametrize("iters", [[5, 5], [0, 20, 10]])
def test_iterations_that_do_not_ascend_raise(iters):
    section = {"mass": {"iters": iters, "range": [0, 1]}}
    with pytest.raises(ConfigError) as error:
        Curriculum.from_config(section, "config.json")
    assert str(error.value) == (
        f"config.json: curriculum.mass.iters is {iters}; expected strictly ascending iterations."
    )


def test_a_curriculum_is_over_with_the_last_change_of_its_last_ramp():
    curriculum = curriculum_of(
        '{"a": {"iters": [0, 10], "range": [0, 1]}, "b": {"iters": [5], "range": [0.0, 1.0]}}'
    )
    assert [curriculum.is_over(iteration) for iteration in (0, 5, 9, 10, 11)] == [
        False, False, False, True, True]  # fmt: skip
    assert curriculum_of("{}").is_over(0)


def test_a_value_that_training_never_reaches_is_noted():
    curriculum = curriculum_of(
        '{"mass": {"iters": [0, 10], "range": [1, 2]}, "drag": {"iters": [0, 9], "range": [1, 2]}}'
    )
    assert curriculum.unreached(num_iter=10) == [  # the last iteration is 9
        "curriculum.mass changes at iteration 10, which training does not reach: num_iter is 10."
    ]
    assert curriculum.unreached(num_iter=11) == []
