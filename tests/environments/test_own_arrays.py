import collections

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import own_arrays

Pair = collections.namedtuple("Pair", "a b")


def ones(dtype=np.float32):
    return np.ones(2, dtype)


@pytest.mark.parametrize(
    "nest",
    [
        ones(),
        np.ones((), np.int64),
        {"a": ones(), "b": {"c": ones(np.uint8)}},
        collections.OrderedDict(b=ones(), a=ones()),
        (ones(), [ones(), ones()]),
        Pair(ones(), {"x": ones()}),
        Pair((), (ones(), Pair([ones()], ones()))),
    ],
)
def test_a_copy_has_the_same_structure_and_shares_no_array(nest):
    copy = own_arrays.own(nest)
    assert type(copy) is type(nest)
    tf.nest.assert_same_structure(copy, nest)
    for leaf, original in zip(tf.nest.flatten(copy), tf.nest.flatten(nest), strict=True):
        assert leaf.dtype == original.dtype
        np.testing.assert_array_equal(leaf, original)
        original[...] = 7
        assert not np.any(leaf == 7)


def test_numbers_and_arrays_of_other_libraries_become_our_own():
    assert own_arrays.own((3, np.float32(2.5), True)) == (3, np.float32(2.5), True)
    copy = own_arrays.own(tf.constant([1.0, 2.0]))
    assert type(copy) is np.ndarray
    np.testing.assert_array_equal(copy, [1.0, 2.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("nest", "leaf"),
    [
        (lambda bad: np.float32([1, bad]), "observation"),
        (lambda bad: np.full((2, 2), bad), "observation"),
        (lambda bad: np.array(bad, np.float16), "observation"),
        (lambda bad: {"arm": {"angle": np.float32([bad])}, "x": ones()}, "observation/arm/angle"),
        (lambda bad: collections.OrderedDict(x=ones(), y=bad), "observation/y"),
        (lambda bad: (ones(), np.float32([bad])), "observation/1"),
    ],
)
def test_what_is_not_finite_is_refused_by_the_name_of_its_leaf(nest, leaf, bad):
    with pytest.raises(ConfigError, match=f"^{leaf} is not finite at env step 5 of the episode"):
        own_arrays.check_finite(nest(bad), "observation", 5)


@pytest.mark.parametrize(
    "nest",
    [np.float32([3e38, -3e38]), np.uint8([255]), {"a": np.array(True), "b": 1e308}, (), 3],
)
def test_large_numbers_and_integers_are_finite(nest):
    own_arrays.check_finite(nest, "observation", 0)


@pytest.mark.parametrize("returned", [None, (ones(), 0.0, False, {}), ones()])
def test_what_is_no_time_step_is_refused(returned):
    class Gymlike:
        def reset(self):
            return returned

        def step(self, action):
            return returned

    for call in (own_arrays.reset, lambda env: own_arrays.step(env, ones())):
        with pytest.raises(ConfigError, match=f"returned a {type(returned).__name__}; expected"):
            call(Gymlike())
