import hypothesis
import numpy as np
import pytest
import tensorflow as tf
import tree
from hypothesis import strategies as st

from tfagents_system.data.codec import Codec
from tfagents_system.data.transition import Step, step_spec

DTYPES = (tf.float32, tf.float64, tf.uint8, tf.int32, tf.int64, tf.bool)
LEAVES = st.builds(
    tf.TensorSpec, st.lists(st.integers(0, 3), max_size=3), st.sampled_from(DTYPES)
)  # fmt: skip
SPECS = st.recursive(
    LEAVES,
    lambda children: st.one_of(
        st.dictionaries(st.text("abc", min_size=1, max_size=2), children, min_size=1, max_size=3),
        st.lists(children, min_size=1, max_size=3),
        st.lists(children, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_beyond_the_largest_are_refused_and_no_others(dtype):
    spec = {"a": tf.TensorSpec([3], dtype), "b": tf.TensorSpec([], tf.int64)}
    codec = Codec(spec, largest=1e15)

    def pack(*values):
        return codec.pack({"a": np.array(values, dtype), "b": np.int64(2**60)})

    for values in ((1e15, -1e15, 1e15), (0.0, 1e-30, 9.99e14)):
        assert codec.unpack(pack(*values))["a"].tolist() == np.array(values, dtype).tolist()
    for values in ((1.01e15, 0, 0), (0, 0, -1e30), (1e20, 1e20, 1e20), (1e38, 1e38, 0)):
        with pytest.raises(ValueError, match=r"^a is beyond 1e\+15$"):
            pack(*values)
    for values in ((np.nan, 1e30, 0), (0, np.inf, 0)):
        with pytest.raises(ValueError, match="^a is not finite$"):
            pack(*values)
    unlimited = Codec(spec).pack({"a": np.array([1e30, -1e38, 3e38], dtype), "b": np.int64(1)})
    kept = unlimited[[column.dtype == dtype for column in unlimited].index(True)]
    assert kept.tolist() == np.array([1e30, -1e38, 3e38], dtype).tolist()


def random_nest(spec, rng):
    def leaf(spec):
        dtype = spec.dtype.as_numpy_dtype
        if spec.dtype == tf.bool:
            return rng.integers(0, 2, spec.shape).astype(dtype)
        if spec.dtype.is_integer:
            info = np.iinfo(dtype)
            return rng.integers(info.min, info.max, spec.shape, dtype, endpoint=True)
        exponents = rng.integers(-30, 30, spec.shape)
        return np.asarray(rng.standard_normal(spec.shape) * 10.0**exponents, dtype)

    return tree.map_structure(leaf, spec)


def assert_same(actual, expected):
    tree.assert_same_structure(actual, expected)
    for one, other in zip(tree.flatten(actual), tree.flatten(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


@hypothesis.given(SPECS, st.sampled_from([(), (2,), (2, 3)]), st.integers(0, 2**32 - 1))
@hypothesis.settings(max_examples=60)
def test_round_trip_is_exact_for_any_spec(spec, lead, seed):
    rng = np.random.default_rng(seed)
    codec = Codec(spec)
    nests = [random_nest(spec, rng) for _ in range(int(np.prod(lead)))]
    packed = [codec.pack(nest) for nest in nests]

    def stack(arrays):
        return np.stack(arrays).reshape(lead + np.shape(arrays[0]))

    columns = [stack(column) for column in zip(*packed, strict=True)]
    assert [(c.dtype, c.shape[len(lead) :]) for c in columns] == [
        (s.dtype.as_numpy_dtype, tuple(s.shape)) for s in codec.columns
    ]
    leaves = zip(*map(tree.flatten, nests), strict=True)
    expected = tree.unflatten_as(spec, [stack(same_leaf) for same_leaf in leaves])
    assert_same(codec.unpack(columns), expected)
    assert_same(codec.unpack([tf.constant(column) for column in columns]), expected)
    n = len(nests)
    rows = tree.map_structure(lambda leaf: leaf.reshape(n, *leaf.shape[len(lead) :]), expected)
    for column, of_rows in zip(columns, codec.pack_rows(rows), strict=True):
        np.testing.assert_array_equal(of_rows, column.reshape(n, column.shape[-1]))


def test_bad_numbers_of_many_rows_are_refused_by_the_name_of_their_leaf():
    spec = {"a": tf.TensorSpec([2], tf.float32), "b": tf.TensorSpec([], tf.float32)}
    codec = Codec(spec, largest=10.0)
    a, b = np.zeros([3, 2], np.float32), np.zeros(3, np.float32)
    assert [column.shape for column in codec.pack_rows({"a": a, "b": b})] == [(3, 3)]
    b[2] = np.nan
    with pytest.raises(ValueError, match="^b is not finite$"):
        codec.pack_rows({"a": a, "b": b})
    a[1, 1], b[2] = -11, 10
    with pytest.raises(ValueError, match="^a is beyond 10$"):
        codec.pack_rows({"a": a, "b": b})


def test_float32_comes_first_then_the_other_dtypes_by_name():
    spec = {"image": tf.TensorSpec([2, 2], tf.uint8), "count": tf.TensorSpec([], tf.int64),
            "x": tf.TensorSpec([3], tf.float32), "y": tf.TensorSpec([], tf.float32)}  # fmt: skip
    codec = Codec(spec)
    assert [(column.dtype, column.shape) for column in codec.columns] == [
        (tf.float32, [3 + 1]), (tf.int64, [1]), (tf.uint8, [2 * 2])]  # fmt: skip
    columns = codec.pack({"image": np.array([[1, 2], [3, 4]], np.uint8), "count": np.int64(2**60),
                          "x": np.float32([5, 6, 7]), "y": np.float32(8)})  # fmt: skip
    assert [column.tolist() for column in columns] == [[5, 6, 7, 8], [2**60], [1, 2, 3, 4]]


def test_unpack_in_a_graph_with_an_unknown_batch_size():
    codec = Codec({"x": tf.TensorSpec([2, 2], tf.float32), "y": tf.TensorSpec([], tf.float32)})
    unpack = tf.function(lambda c: codec.unpack([c]), input_signature=[tf.TensorSpec([None, 3, 5])])
    packed = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    assert_same(unpack(packed), {"x": packed[..., :4].reshape(2, 3, 2, 2), "y": packed[..., 4]})


OBSERVATION = {"joints": tf.TensorSpec([2], tf.float32), "frame": tf.TensorSpec([2], tf.uint8)}
CODEC = Codec(step_spec(OBSERVATION, tf.TensorSpec([1], tf.float32)))


def make_step(**changes):
    observation = {"joints": np.zeros(2, np.float32), "frame": np.zeros(2, np.uint8)}
    observation |= changes.pop("observation", {})
    zero = np.float32(0)
    values = Step(zero, observation, np.float32([0]), zero, zero)
    return values._replace(**changes)


WRONG = {
    "shape": ({"action": np.zeros(2, np.float32)}, r"action has shape \(2,\), its spec \(1,\)"),
    "scalar": ({"action": np.float32(0)}, r"action has shape \(\), its spec \(1,\)"),
    "dtype": ({"observation": {"frame": np.zeros(2, np.float32)}},
              "observation/frame has dtype float32, its spec uint8"),
    "text": ({"action": np.array(["left"])}, "action has dtype <U4, its spec float32"),
    "NaN": ({"reward": np.float32("nan")}, "reward is not finite"),
    "inf": ({"observation": {"joints": np.float32([0, np.inf]), "frame": np.zeros(2, np.uint8)}},
            "observation/joints is not finite"),
    "too large": ({"reward": np.float64(1e300)}, "reward is not finite"),
    "too large an integer": ({"observation": {"frame": np.uint16([0, 256])}},
                             "observation/frame has a value that its spec, uint8, cannot hold"),
    "missing leaf": ({"action": ()}, "5 arrays instead of 6"),
    "extra leaf": ({"action": (np.float32([0]), np.float32([0]))}, "7 arrays instead of 6"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_does_not_fit_is_an_error_that_names_the_leaf(case):
    changes, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        CODEC.pack(make_step(**changes))


def test_values_of_a_wider_dtype_are_cast():
    columns = CODEC.pack(
        make_step(reward=1.5, action=np.array([3]), observation={"frame": np.uint16([7, 9])})
    )
    step = CODEC.unpack(columns)
    assert (step.reward, step.action.tolist()) == (1.5, [3])
    assert step.observation["frame"].tolist() == [7, 9]
