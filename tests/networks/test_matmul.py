import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.matmul import Dense, matmul_precision, resolve_precision

EPSILON = 2.0**-9  # bfloat16 has 8 bits: 1 + EPSILON rounds to 1


def layer_of(kernel, bias):
    layer = Dense(len(bias))
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
    layer = layer_of([[1 + EPSILON, 2.0]], [0.0, 0.0])
    inputs = tf.constant([[4 + 4 * EPSILON]])
    with matmul_precision(values, gradients="bfloat16"), tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs * [3.0, 5.0])
    factor = 1 + EPSILON if values == "float32" else 1
    np.testing.assert_array_equal(outputs, np.float32([[4 * factor**2, 4 * factor * 2]]))
    to_inputs, to_kernel, to_bias = tape.gradient(loss, [inputs, layer.kernel, layer.bias])
    np.testing.assert_array_equal(to_inputs, [[3 * 1 + 5 * 2]])
    np.testing.assert_array_equal(to_kernel, [[4 * 3, 4 * 5]])
    np.testing.assert_array_equal(to_bias, [3, 5])
    assert {g.dtype for g in (to_inputs, to_kernel, to_bias)} == {tf.float32}


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
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")  # as on ARM
    assert resolve_precision("auto", cpuinfo) == "float32"
