"""What tests need of the CPU."""

import pytest

from tfagents_system.networks import bfloat16_ops

needs_bfloat16_ops = pytest.mark.skipif(
    not bfloat16_ops.are_for(bfloat16_ops.cpu_flags()),
    reason="this CPU has no avx512_bf16, or amx_bf16 as well",
)
