import functools

import numpy as np
import pytest
import tensorflow as tf
from kernel_marks import needs_bfloat16, needs_int16
from tf_agents.specs import tensor_spec

from tfagents_system.kernels.ops import load_ops
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.matmul import LARGEST_FIRST, Dense, matmul_precision

EPSILON = 2.0**-9  # bfloat16 has 8 bits: 1 + EPSILON rounds to 1
LARGEST = 2**15 - 1  # of the integers of our ops, and their norm in each row and column


INT16 = pytest.param("int16", marks=needs_int16)
BFLOAT16 = pytest.param("bfloat16", marks=needs_bfloat16)


@pytest.fixture(params=[BFLOAT16, INT16])
def arithmetic(request):
    """TensorFlow's bfloat16, which also rounds the sums, or integers by the compiled ops."""
    return request.param


def layer_of(kernel, bias, **kwargs):
    layer = Dense(len(bias), **kwargs)
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


def test_sums_of_many_products_neither_stall_nor_overflow(arithmetic):
    layer = layer_of([[1.0]] * 4096, [0.0])  # a sum in bfloat16 would stay at 256
    with matmul_precision(arithmetic, arithmetic):
        outputs = layer(np.ones([1, 4096], np.float32))
    integer = round(LARGEST / np.sqrt(4096))  # in units of norms / LARGEST; the sum is 2**30
    factor = integer * np.sqrt(4096) / LARGEST if arithmetic == "int16" else 1
    rtol = 1e-6 if arithmetic == "int16" else 0
    np.testing.assert_allclose(outputs, [[4096 * factor**2]], rtol=rtol)


@pytest.mark.parametrize(
    "values, arithmetic",
    [("float32", "bfloat16"), ("bfloat16", "bfloat16"),
     pytest.param("int16", "int16", marks=needs_int16)],
)  # fmt: skip
def test_gradients_are_products_of_rounded_factors(values, arithmetic):
    layer = layer_of([[1 + EPSILON, 2.0, -1.0]], [0.0, 0.0, 0.0])
    inputs = tf.constant([[4 + 4 * EPSILON]])
    with matmul_precision(values, gradients=arithmetic), tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs * [3.0, 5.0, 7.0])
    factor = 1 if arithmetic == "bfloat16" and values == "bfloat16" else 1 + EPSILON
    expected = np.float32([[4 * factor**2, 4 * factor * 2, 0]])
    np.testing.assert_allclose(outputs, expected, rtol=1e-6 if values == "int16" else 0)
    to_inputs, to_kernel, to_bias = tape.gradient(loss, [inputs, layer.kernel, layer.bias])
    # ReLU stops the third. Integers alone in a column are exact, three in a row are not.
    factor, rtol = (1, 0) if arithmetic == "bfloat16" else (1 + EPSILON, 1e-6)
    error = 0 if arithmetic == "bfloat16" else largest_error([[3, 5, 0]], [[1], [2], [-1]]).item()
    np.testing.assert_allclose(to_inputs, [[3 * factor + 5 * 2]], rtol=0, atol=error)
    np.testing.assert_allclose(to_kernel, [[4 * factor * 3, 4 * factor * 5, 0]], rtol=rtol)
    np.testing.assert_array_equal(to_bias, [3, 5, 0])
    assert {g.dtype for g in (to_inputs, to_kernel, to_bias)} == {tf.float32}


def rounded(matrix):
    return tf.cast(tf.cast(matrix, tf.bfloat16), tf.float64).numpy()


def norms(left, right):
    return np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0))


def largest_error(left, right):
    """Of a product of our integers; each of the factors is at most half a unit off."""
    return np.sqrt(np.shape(right)[0]) * norms(left, right) / LARGEST


def product_and_error(arithmetic, left, right):
    if arithmetic == "int16":
        return left @ right, largest_error(left, right)
    product = rounded(left) @ rounded(right)
    return product, 2 * EPSILON * np.abs(product)  # the sum is rounded, too


def activated(values, has_relu):
    return np.maximum(values, 0) if has_relu else values


def drawn(rows, inputs, units):
    """Returns inputs, kernel, gradients from above, and bias of a layer, of normal numbers."""
    rng = np.random.default_rng(rows + inputs)
    sizes = ([rows, inputs], [inputs, units], [rows, units], units)
    return [np.float32(rng.normal(size=size)) for size in sizes]


def outputs_and_gradients(layer, x, upstream, arithmetic):
    """Returns the outputs [rows, units], and the gradients by inputs, kernel and bias."""
    x = tf.constant(x)
    with matmul_precision(arithmetic, arithmetic), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x)
    return outputs, tape.gradient(outputs, [x, layer.kernel, layer.bias], upstream)


@pytest.mark.parametrize("has_relu", [True, False])
def test_values_and_gradients_of_any_size_are_those_of_rounded_factors(arithmetic, has_relu):
    # Whole tiles of 12 rows and 32 columns, and what is left over beside them.
    columns = [(1, 1), (33, 31), (64, 32), (47, 81)]
    for size in [(rows, *of_kernel) for rows in (1, 11, 12, 25) for of_kernel in columns]:
        x, kernel, upstream, bias = drawn(*size)
        layer = layer_of(kernel, bias, has_relu=has_relu)
        outputs, gradients = outputs_and_gradients(layer, x, upstream, arithmetic)
        product, error = product_and_error(arithmetic, x, kernel)
        wanted = activated(product + bias, has_relu)
        allowed = error + 1e-6 * np.abs(product + bias).max()
        assert (np.abs(outputs - wanted) <= allowed).all(), size
        passed = upstream * (outputs.numpy() > 0) if has_relu else upstream
        for got, (wanted, error) in zip(
            gradients,
            [
                product_and_error(arithmetic, passed, kernel.T),
                product_and_error(arithmetic, x.T, passed),
                (passed.sum(axis=0), 0),
            ],
            strict=True,
        ):
            assert (np.abs(got - wanted) <= error + 1e-6 * np.abs(wanted).max()).all(), size


@pytest.mark.parametrize("has_relu", [True, False])
def test_the_first_layer_and_its_gradients_are_float32(arithmetic, has_relu):
    columns = [(1, 1), (33, 31), (36, 96)]
    for size in [(rows, *of_kernel) for rows in (1, 11, 25) for of_kernel in columns]:
        x, kernel, upstream, bias = drawn(*size)
        layer = layer_of(kernel, bias, is_first=True, has_relu=has_relu)
        outputs, gradients = outputs_and_gradients(layer, x, upstream, arithmetic)
        close = functools.partial(
            np.testing.assert_allclose, rtol=1e-5, atol=1e-5, err_msg=f"size {size}"
        )
        close(outputs, activated(x @ kernel + bias, has_relu))
        passed = upstream * (outputs.numpy() > 0) if has_relu else upstream
        for got, wanted in zip(
            gradients, [passed @ kernel.T, x.T @ passed, passed.sum(axis=0)], strict=True
        ):
            close(got, wanted)


@needs_int16
@pytest.mark.parametrize("num_inputs, is_ours", [(LARGEST_FIRST, True), (LARGEST_FIRST + 1, False)])
def test_large_observations_are_multiplied_by_tensorflow(num_inputs, is_ours):
    layer = layer_of(np.ones([num_inputs, 1]), [0.0], is_first=True)
    with matmul_precision("int16", "int16"):
        graph = tf.function(layer).get_concrete_function(tf.TensorSpec([2, num_inputs])).graph
    assert ("Float32MatMulBiasRelu" in {op.type for op in graph.get_operations()}) == is_ours


@needs_int16
@pytest.mark.parametrize(
    "multiply",
    [
        lambda ops, left, right: ops.mat_mul_bias_relu(left, right, tf.zeros(right.shape[1])),
        lambda ops, left, right: ops.mat_mul_bias_relu_input_grad(left, right.T, left),
        lambda ops, left, right: ops.mat_mul_bias_relu_kernel_grad(right, left.T, right**2)[0],
    ],
    ids=["values", "gradients of inputs", "gradients of kernels"],
)
def test_our_ops_keep_the_digits_of_small_rows_and_columns_beside_large_ones(multiply):
    rng = np.random.default_rng(0)
    left = np.maximum(rng.normal(size=[64, 256]), 0) * np.logspace(-6, 6, 64)[:, np.newaxis]
    right = rng.normal(size=[256, 96]) * np.logspace(6, -6, 96)
    got = multiply(load_ops(), np.float32(left), np.float32(right)).numpy()
    active = got > 0  # ReLU stops the other values

    def rms_error(product):
        errors = (product - left @ right) / norms(left, right)
        return np.sqrt(np.mean(errors[active] ** 2))

    # Two factors, either with an error between -1/2 and 1/2 of a unit, but for zeros without one.
    expected = np.sqrt((1 + 1 / 2) / 12) / LARGEST
    assert 0.9 * expected < rms_error(got) < 1.1 * expected
    assert rms_error(rounded(left) @ rounded(right)) > 10 * expected


@needs_int16
def test_rows_and_columns_of_zeros_give_the_bias():
    layer = layer_of([[1.0, 0.0], [2.0, 0.0]], [3.0, 4.0])
    with matmul_precision("int16", "int16"):
        np.testing.assert_array_equal(layer(np.zeros([1, 2], np.float32)), [[3.0, 4.0]])
        np.testing.assert_array_equal(layer(np.float32([[1.0, 0.0]]))[:, 1], [4.0])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so_in_its_row(arithmetic, bad, is_first):
    layer = layer_of([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0], is_first=is_first)
    with matmul_precision(arithmetic, arithmetic):
        outputs = layer(np.float32([[bad, 0.0], [2.0, 3.0]]))
    assert not np.isfinite(outputs[0]).any()  # infinity times zero is NaN
    assert not np.isnan(bad) or np.isnan(outputs[0]).all()
    # Each factor of an integer product is up to half a unit off, of norms 13^0.5 and 2^0.5.
    error = 13**0.5 * 2**0.5 * 2**0.5 / LARGEST if arithmetic == "int16" and not is_first else 0
    np.testing.assert_allclose(outputs[1], [5.0, 1.0], rtol=0, atol=error)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradients_that_are_not_finite_stay_so_in_their_row_and_column(arithmetic, bad):
    layer, x = layer_of([[1.0, 2.0]], [0.0, 0.0]), tf.constant([[1.0], [1.0]])
    with matmul_precision(arithmetic, arithmetic), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x)
    upstream = tf.constant([[bad, 3.0], [0.0, 5.0]])
    to_inputs, to_kernel, to_bias = tape.gradient(outputs, [x, *layer.weights], upstream)
    for gradient in (to_inputs[:, 0], to_kernel[0], to_bias):
        np.testing.assert_array_equal(np.isfinite(gradient), [False, True])
    np.testing.assert_allclose(to_bias[1], 3 + 5)


def test_sequences_give_what_their_steps_give(arithmetic):
    rng = np.random.default_rng(0)
    layer = layer_of(rng.normal(size=[8, 4]), rng.normal(size=4))
    inputs = rng.normal(size=[2, 3, 8]).astype(np.float32)
    with matmul_precision(arithmetic, arithmetic):
        outputs = layer(inputs)
        for step in range(3):
            np.testing.assert_allclose(outputs[:, step], layer(inputs[:, step]), rtol=1e-6)


def test_observations_actions_and_values_keep_their_digits(arithmetic):
    action = tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1)
    critic = MlpCriticNetwork(
        (tf.TensorSpec([1], tf.float32), action), joint_fc_layer_params=(1, 1)
    )
    critic.create_variables()
    ones = [np.ones_like(weight) for weight in critic.get_weights()]
    critic.set_weights([one if one.ndim == 2 else 0 * one for one in ones])
    small = np.float32([[EPSILON]])
    with matmul_precision(arithmetic, arithmetic):
        # 1 + EPSILON is the sum of two inputs, rounded as a factor of the second layer alone.
        q_value, _ = critic((np.float32([[1.0]]), small))
        expected, rtol = (1.0, 0) if arithmetic == "bfloat16" else (1 + EPSILON, 1e-6)
        np.testing.assert_allclose(q_value, [expected], rtol=rtol)
        q_value, _ = critic((np.float32([[-1.0 + EPSILON]]), np.float32([[1.0]])))
        np.testing.assert_allclose(q_value, [EPSILON], rtol=rtol)  # 0 if the input had been rounded
        critic.value_layer.set_weights([np.float32([[1 + EPSILON]]), np.zeros(1, np.float32)])
        q_value, _ = critic((np.float32([[1.0]]), np.float32([[0.0]])))
        np.testing.assert_allclose(q_value, np.float32([1 + EPSILON]), rtol=rtol)


def gradient_penalty(layer, x, values, gradients):
    """Gradients, by x, kernel and bias, of the squared norm of the first gradients by them."""
    with matmul_precision(values, gradients), tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(outputs**2)
        by_x, by_kernel, by_bias = inner.gradient(loss, [x, *layer.trainable_weights])
        penalty = sum(tf.reduce_sum(g**2) for g in (by_x, by_kernel, by_bias))
    return outer.gradient(penalty, [x, *layer.trainable_weights])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize(
    "values, arithmetic",
    [("float32", "bfloat16"), ("bfloat16", "bfloat16"),
     pytest.param("int16", "int16", marks=needs_int16)],
)  # fmt: skip
@pytest.mark.parametrize("has_relu", [True, False])
def test_second_derivatives_are_those_of_keras(values, arithmetic, compiles, is_first, has_relu):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=[12, 16]), rng.normal(size=16)
    layer = layer_of(*weights, is_first=is_first, has_relu=has_relu)
    x = tf.constant(rng.normal(size=[8, 12]), tf.float32)
    call = tf.function(gradient_penalty) if compiles else gradient_penalty
    got = call(layer, x, values, arithmetic)
    wanted = gradient_penalty(layer, x, "float32", "float32")
    for one, other in zip(got, wanted, strict=True):
        error = 0.05 if arithmetic == "bfloat16" else 0.002
        np.testing.assert_allclose(one, other, rtol=0, atol=error * np.abs(other).max())
