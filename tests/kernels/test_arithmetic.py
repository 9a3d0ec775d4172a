import re

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.kernels.arithmetic import Host, explain, resolve

NOT_BUILT = "the compiled ops have not been built; build them with: python -m x"
VNNI = frozenset({"fpu", "avx2", "fma", "avx512f", "avx512bw", "avx512_vnni"})
CAN_ALL = Host(VNNI | {"avx512_bf16"}, has_gpu=False, ops_error=None)
CASCADE_LAKE = Host(VNNI, has_gpu=False, ops_error=None)
WITH_AMX = Host(VNNI | {"amx_bf16"}, has_gpu=False, ops_error=None)
WITH_GPU = Host(VNNI | {"avx512_bf16"}, has_gpu=True, ops_error=None)
WITHOUT_OPS = Host(VNNI | {"avx512_bf16"}, has_gpu=False, ops_error=NOT_BUILT)
ZEN_3 = Host(frozenset({"fpu", "avx2", "fma"}), has_gpu=False, ops_error=None)
IVY_BRIDGE = Host(frozenset({"fpu", "avx"}), has_gpu=False, ops_error=None)
UNKNOWN = Host(frozenset(), has_gpu=False, ops_error=None)  # macOS, ARM


@pytest.mark.parametrize(
    "host, expected",
    [(CAN_ALL, "int16"), (CASCADE_LAKE, "int16"), (WITH_AMX, "int16"), (WITH_GPU, "float32"),
     (WITHOUT_OPS, "float32"), (ZEN_3, "int16"), (IVY_BRIDGE, "float32"), (UNKNOWN, "float32")],
)  # fmt: skip
def test_auto_is_int16_where_possible_and_float32_elsewhere(host, expected):
    assert resolve("auto", host) == expected


@pytest.mark.parametrize(
    "arithmetic, hosts",
    [
        (
            "float32",
            [CAN_ALL, CASCADE_LAKE, WITH_AMX, WITH_GPU, WITHOUT_OPS, ZEN_3, IVY_BRIDGE, UNKNOWN],
        ),
        ("bfloat16", [CAN_ALL, WITH_AMX, WITH_GPU, WITHOUT_OPS]),
        ("int16", [CAN_ALL, CASCADE_LAKE, WITH_AMX, ZEN_3]),
    ],
)
def test_what_is_asked_for_is_done_where_it_can_be(arithmetic, hosts):
    assert [resolve(arithmetic, host) for host in hosts] == [arithmetic] * len(hosts)


@pytest.mark.parametrize(
    "arithmetic, host, reason, possible",
    [
        ("int16", IVY_BRIDGE, "this CPU lacks avx2, fma", "float32"),
        ("int16", WITHOUT_OPS, NOT_BUILT, "float32"),
        ("int16", WITH_GPU, "the learner has a GPU, and the compiled ops are for CPUs", "float32"),
        ("bfloat16", CASCADE_LAKE, "this CPU has neither avx512_bf16 nor amx_bf16; ", "int16"),
    ],
)
def test_what_the_host_cannot_do_is_refused_with_the_reason_and_the_way_out(
    arithmetic, host, reason, possible
):
    start = f'TrainParams.matmul_precision is "{arithmetic}", but {reason}'
    end = f'Or set it to "auto", which is "{possible}" here.'
    with pytest.raises(ConfigError, match=f"^{re.escape(start)}.*{re.escape(end)}$"):
        resolve(arithmetic, host)


def test_the_log_names_the_arithmetic_and_what_a_faster_one_lacks():
    assert explain("int16", CAN_ALL) == "Matrix products of train steps: int16."
    assert explain("float32", CAN_ALL) == "Matrix products of train steps: float32."
    assert explain("float32", WITHOUT_OPS) == (
        f"Matrix products of train steps: float32. Not int16, which is faster: {NOT_BUILT}."
    )
