"""What tests of the compiled ops need of the CPU; conftest.py builds the ops."""

import pytest

from tfagents_system.kernels.cpu import cpu_flags, missing_flags
from tfagents_system.kernels.shared_library import NEEDED_CPU_FLAGS

needs_int16 = pytest.mark.skipif(
    bool(missing_flags(NEEDED_CPU_FLAGS, cpu_flags())),
    reason=f"this CPU lacks {', '.join(missing_flags(NEEDED_CPU_FLAGS, cpu_flags()))}",
)
