import subprocess
import sys

import pytest
import tensorflow as tf
from kernel_marks import needs_int16

from tfagents_system.kernels.ops import load_ops


@needs_int16
@pytest.mark.parametrize(
    "shapes", [([2, 3], [4, 5], [5]), ([2, 3], [3, 5], [4]), ([3], [3, 5], [5])]
)
@pytest.mark.parametrize(
    "name",
    [
        "mat_mul_bias_relu",
        "mat_mul_bias",
        "float32_mat_mul_bias_relu",
        "float32_mat_mul_bias",
    ],
)
def test_shapes_that_do_not_fit_are_errors(shapes, name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs do not fit|wrong rank"):
        getattr(load_ops(), name)(*map(tf.zeros, shapes))


def test_importing_the_networks_and_the_agent_loads_no_library():
    script = (
        "from tfagents_system.agents import construction\n"
        "from tfagents_system.kernels.ops import load_ops\n"
        "print(load_ops.cache_info().misses)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"
