import numpy as np
import pytest
import tensorflow as tf
from cpu_marks import needs_bfloat16_ops

from tfagents_system.networks import bfloat16_ops
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.matmul import DenseRelu, matmul_precision, resolve_precision

EPSILON = 2.0**-9  # bfloat16 has 8 bits: 1 + EPSILON rounds to 1


@pytest.fixture(
    autouse=True, params=["TensorFlow", pytest.param("our ops", marks=needs_bfloat16_ops)]
)
def rounding_of_sums(request, monkeypatch):
    """Runs each test with TensorFlow's products, which round the sums, and with our own."""
    if request.param == "TensorFlow":
        monkeypatch.setattr(bfloat16_ops, "load", lambda: None)
        return EPSILON
    assert bfloat16_ops.load() is not None
    return 0.0


def layer_of(kernel, bias):
    layer = DenseRelu(len(bias))
    layer.build([None, len(kernel)])
    layer.set_weights([np.float32(kernel), np.float32(bias)])
    return layer


def test_factors_are_rounded_and_summed_up_in_float32():
    layer = layer_of([[1 + EPSILON], [3.0], [-256.0]], [EPSILON])
    inputs = np.float32([[1 + EPSILON, 1.0, 1 / 64]])
    exact = (1 + EPSILON) ** 2 + 3 - 256 / 64 + EPSILON
    np.testing.assert_array_equal(layer(inputs), np.float32([[exact]]))
    with matmul_precision("bfloat16", "bfloat16"):
        np.testing.assert_array_equal(layer(inputs), [[1 * 1 + 3 - 256 / 64 + EPSILON]])
    np.testing.assert_array_equal(layer(inputs), np.float32([[exact]]))


def test_sums_of_many_products_do_not_stall():
    layer = layer_of([[1.0]] * 4096, [0.0])  # a sum in bfloat16 would stay at 256
    with matmul_precision("bfloat16", "bfloat16"):
        np.testing.assert_array_equal(layer(np.ones([1, 4096], np.float32)), [[4096.0]])


@pytest.mark.parametrize("values", ["float32", "bfloat16"])
def test_gradients_are_products_of_their_own_precision(values):
    layer = layer_of([[1 + EPSILON, 2.0, -1.0]], [0.0, 0.0, 0.0])
    inputs = tf.constant([[4 + 4 * EPSILON]])
    with matmul_precision(values, gradients="bfloat16"), tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs * [3.0, 5.0, 7.0])
    factor = 1 + EPSILON if values == "float32" else 1
    np.testing.assert_array_equal(outputs, np.float32([[4 * factor**2, 4 * factor * 2, 0]]))
    to_inputs, to_kernel, to_bias = tape.gradient(loss, [inputs, layer.kernel, layer.bias])
    np.testing.assert_array_equal(to_inputs, [[3 * 1 + 5 * 2]])  # ReLU stops the third
    np.testing.assert_array_equal(to_kernel, [[4 * 3, 4 * 5, 0]])
    np.testing.assert_array_equal(to_bias, [3, 5, 0])
    assert {g.dtype for g in (to_inputs, to_kernel, to_bias)} == {tf.float32}


def rounded(matrix):
    return tf.cast(tf.cast(matrix, tf.bfloat16), tf.float64).numpy()


# Whole tiles of 12 rows and 32 columns, and what is left over beside them.
@pytest.mark.parametrize("rows", [1, 11, 12, 25])
@pytest.mark.parametrize("inputs, units", [(1, 1), (33, 31), (64, 32), (47, 81)])
def test_values_and_gradients_of_any_size_are_those_of_rounded_factors(
    rounding_of_sums, rows, inputs, units
):
    rng = np.random.default_rng(rows + inputs)
    x, upstream = rng.normal(size=[rows, inputs]), rng.normal(size=[rows, units])
    kernel, bias = rng.normal(size=[inputs, units]), rng.normal(size=units)
    layer, x, upstream = layer_of(kernel, bias), tf.constant(x, tf.float32), np.float32(upstream)
    with matmul_precision("bfloat16", "bfloat16"), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x)
    expected = np.maximum(rounded(x) @ rounded(kernel) + np.float32(bias), 0)
    passed = upstream * (outputs.numpy() > 0)
    gradients = tape.gradient(outputs, [x, layer.kernel, layer.bias], upstream)
    for got, wanted in zip(
        [outputs, *gradients],
        [
            expected,
            rounded(passed) @ rounded(kernel).T,
            rounded(x).T @ rounded(passed),
            passed.sum(axis=0),
        ],
        strict=True,
    ):
        largest = np.abs(wanted).max()  # before a bias of the other sign was added, perhaps more
        np.testing.assert_allclose(
            got, wanted, rtol=0, atol=(1e-6 + 2 * rounding_of_sums) * largest
        )


def test_nan_stays_nan():
    layer = layer_of([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0])
    with matmul_precision("bfloat16", "bfloat16"):
        outputs = layer(np.float32([[np.nan, 0.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(outputs, [[np.nan, np.nan], [5.0, 1.0]])


def test_sequences_give_what_their_steps_give():
    rng = np.random.default_rng(0)
    layer = layer_of(rng.normal(size=[8, 4]), rng.normal(size=4))
    inputs = rng.normal(size=[2, 3, 8]).astype(np.float32)
    with matmul_precision("bfloat16", "bfloat16"):
        outputs = layer(inputs)
        for step in range(3):
            np.testing.assert_allclose(outputs[:, step], layer(inputs[:, step]), rtol=1e-6)


def test_observations_actions_and_values_keep_their_digits():
    specs = tf.TensorSpec([1], tf.float32), tf.TensorSpec([1], tf.float32)
    critic = MlpCriticNetwork(specs, joint_fc_layer_params=(1, 1))
    critic.create_variables()
    ones = [np.ones_like(weight) for weight in critic.get_weights()]
    critic.set_weights([one if one.ndim == 2 else 0 * one for one in ones])
    small = np.float32([[EPSILON]])
    with matmul_precision("bfloat16", "bfloat16"):
        # 1 + EPSILON is the sum of two inputs, rounded as a factor of the second layer alone.
        q_value, _ = critic((np.float32([[1.0]]), small))
        np.testing.assert_array_equal(q_value, [1.0])
        q_value, _ = critic((np.float32([[-1.0 + EPSILON]]), np.float32([[1.0]])))
        np.testing.assert_array_equal(q_value, [EPSILON])  # 0 if the input had been rounded
        critic.value_layer.set_weights([np.float32([[1 + EPSILON]]), np.zeros(1, np.float32)])
        q_value, _ = critic((np.float32([[1.0]]), np.float32([[0.0]])))
        np.testing.assert_array_equal(q_value, np.float32([1 + EPSILON]))


@pytest.mark.parametrize(
    "flags, expected",
    [
        ("fpu avx2 avx512_bf16 fsrm", "bfloat16"),
        ("fpu amx_bf16", "bfloat16"),
        ("fpu avx2 avx512f avx512_vnni", "float32"),
        ("", "float32"),
    ],
)
def test_auto_goes_by_the_flags_of_the_cpu(tmp_path, flags, expected):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: avx512_bf16\n")
    assert resolve_precision("auto", cpuinfo) == expected
    for precision in ("float32", "bfloat16"):
        assert resolve_precision(precision, cpuinfo) == precision


def test_auto_is_float32_on_a_cpu_that_has_no_flags(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    assert resolve_precision("auto", cpuinfo) == "float32"  # no file, as on macOS
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")  # as on ARM
    assert resolve_precision("auto", cpuinfo) == "float32"
