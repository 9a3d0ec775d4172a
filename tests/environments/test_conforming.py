"""Observations from a user's program get the spec of training, or are refused by name."""

import numpy as np
import pytest
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.conforming import conforming

VECTOR = array_spec.ArraySpec((2,), np.float32)
IMAGE = array_spec.ArraySpec((1, 2), np.uint8)
NEST = {"arm": {"speed": VECTOR}, "seen": (IMAGE, VECTOR)}


@pytest.mark.parametrize("given", [[1, 2], np.array([1.0, 2.0]), (True, 2), np.int8([1, 2])])
def test_numbers_get_the_dtype_of_the_spec_and_an_array_of_their_own(given):
    result = conforming(given, VECTOR)
    assert result.dtype == np.float32 and result.tolist() == [1.0, 2.0]
    assert not np.shares_memory(result, given)


def test_a_nest_keeps_its_parts_and_more_leaves_of_a_dict_are_left_out():
    given = {"arm": {"speed": [1, 2], "heat": 9}, "seen": [[[3, 255.0]], [5, 6]], "more": "x"}
    result = conforming(given, NEST)
    assert result.keys() == NEST.keys() and result["arm"].keys() == {"speed"}
    image, vector = result["seen"]
    assert image.dtype == np.uint8 and image.tolist() == [[3, 255]]
    assert vector.dtype == np.float32 and vector.tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("given", "spec", "message"),
    [
        ([1, 2, 3], VECTOR, r"^observation has shape \[3\]; .* shape \[2\], as in training"),
        ([[1, 2]], VECTOR, r"^observation has shape \[1, 2\]"),
        ([1, np.nan], VECTOR, "^observation is not finite"),
        ([1, -np.inf], VECTOR, "^observation is not finite"),
        ([1, 1e300], VECTOR, "^observation is not finite as float32"),
        ([[3, np.nan]], IMAGE, "^observation: .* value nan"),
        ("up", VECTOR, "^observation is a str, not an array of numbers"),
        (None, VECTOR, "^observation is a NoneType, not an array"),
        (([1, 2], {}), VECTOR, "^observation is a tuple, not an array"),  # gymnasium's reset
        ({"x": [1, 2]}, VECTOR, "^observation is a dict, not an array"),
        ([[3, 256]], IMAGE, "^observation: .* value 256, which its dtype uint8 cannot hold"),
        ([[3, 0.5]], IMAGE, "^observation: .* value 0.5"),
        ({"arm": {"speed": [1, 2]}}, NEST, "^observation is a dict without seen; .* arm, seen"),
        ([1, 2], NEST, "^observation is a list without arm, seen"),
        ({"arm": {"heat": 1}, "seen": ()}, NEST, "^observation/arm is a dict without speed"),
        ({"arm": {"speed": [1]}, "seen": ()}, NEST, r"^observation/arm/speed has shape \[1\]"),
        ({"arm": {"speed": [1, 2]}, "seen": [[[3, 4]]]}, NEST, "^observation/seen .* of 2 parts"),
        ({"arm": {"speed": [1, 2]}, "seen": ([[3, 4]], [0])}, NEST, "^observation/seen/1 has"),
    ],
)  # fmt: skip
def test_what_does_not_conform_is_refused_by_name(given, spec, message):
    with pytest.raises(ConfigError, match=message):
        conforming(given, spec)
