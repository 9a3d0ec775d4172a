"""The versions of the compiled ops, of which other tests have only this CPU's."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from tfagents_system.kernels import build, shared_library
from tfagents_system.kernels.cpu import INSTRUCTION_SETS, cpu_flags

# In a process of its own, because TensorFlow knows an op only once.
COMPUTE = """
import sys
import numpy as np, tensorflow as tf
ops = tf.load_op_library(sys.argv[1])
given = {name: tf.constant(value) for name, value in np.load(sys.argv[2]).items()}
x, kernel, bias, upstream = (given[name] for name in ("x", "kernel", "bias", "upstream"))
outputs = ops.mat_mul_bias_relu(x, kernel, bias)
by_kernel, by_bias = ops.mat_mul_bias_relu_kernel_grad(upstream, x, outputs)
np.savez(
    sys.argv[3],
    outputs=outputs,
    by_x=ops.mat_mul_bias_relu_input_grad(upstream, kernel, outputs),
    by_kernel=by_kernel,
    by_bias=by_bias,
    first=ops.float32_mat_mul_bias_relu(x, kernel, bias),
    layer_norm=ops.layer_norm_relu(x, given["gamma"], given["beta"]),
    batch_norm=ops.batch_norm_relu(x, given["gamma"], given["beta"])[0],
)
"""


@pytest.mark.skipif(shutil.which(build.COMPILER) is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("chosen", INSTRUCTION_SETS, ids=lambda chosen: chosen.cpu_flags[0])
def test_the_ops_can_be_built_for_each_set_and_compute_the_same(chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_library, "cpu_flags", lambda: chosen.cpu_flags)
    library, _ = build.build(tmp_path)
    if missing := set(chosen.cpu_flags) - cpu_flags():
        pytest.skip(f"built, but not run: this CPU lacks {', '.join(sorted(missing))}")

    rng = np.random.default_rng(0)
    rows, inputs, units = 29, 45, 37  # no multiples of a register, and several tiles
    shapes = {"x": (rows, inputs), "kernel": (inputs, units), "bias": (units,),
              "upstream": (rows, units), "gamma": (inputs,), "beta": (inputs,)}  # fmt: skip
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "given.npz", **given)
    subprocess.run(
        [sys.executable, "-c", COMPUTE, library, tmp_path / "given.npz", tmp_path / "got.npz"],
        check=True, timeout=120,
    )  # fmt: skip
    got = np.load(tmp_path / "got.npz")

    x, kernel, upstream = given["x"], given["kernel"], given["upstream"]
    outputs = np.maximum(x @ kernel + given["bias"], 0)
    passed = upstream * (got["outputs"] > 0)
    deviation = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    by_row = (x - x.mean(axis=1, keepdims=True)) / deviation
    by_column = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
    wanted = {
        "outputs": outputs,
        "by_x": passed @ kernel.T,
        "by_kernel": x.T @ passed,
        "by_bias": passed.sum(axis=0),
        "first": outputs,
        "layer_norm": np.maximum(given["gamma"] * by_row + given["beta"], 0),
        "batch_norm": np.maximum(given["gamma"] * by_column + given["beta"], 0),
    }
    for name, values in wanted.items():
        # The factors of integer products are half a unit off, their norms are below ten.
        atol = 10 * 10 * inputs**0.5 / 2**15 if name in ("outputs", "by_x", "by_kernel") else 1e-4
        np.testing.assert_allclose(got[name], values, rtol=0, atol=atol, err_msg=name)
