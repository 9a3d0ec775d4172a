"""What tests of an arithmetic need of the CPU; conftest.py builds the compiled ops."""

import pytest

from tfagents_system.kernels.arithmetic import BFLOAT16_FLAGS
from tfagents_system.kernels.cpu import cpu_flags, missing_flags

needs_int16 = pytest.mark.skipif(
    bool(missing_flags(cpu_flags())),
    reason=f"this CPU lacks {', '.join(missing_flags(cpu_flags()))}",
)
needs_bfloat16 = pytest.mark.skipif(
    not cpu_flags() & set(BFLOAT16_FLAGS),
    reason=f"this CPU has neither {' nor '.join(BFLOAT16_FLAGS)}: TensorFlow emulates bfloat16",
)
