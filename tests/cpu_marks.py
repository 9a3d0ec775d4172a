"""What tests need of the CPU."""

import pytest

from tfagents_system.networks import dense_relu_ops

needs_dense_relu_ops = pytest.mark.skipif(
    not dense_relu_ops.are_for(dense_relu_ops.cpu_flags()),
    reason="this CPU has no avx512_vnni, or has amx_bf16 as well",
)
