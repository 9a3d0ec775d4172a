import pytest

from tfagents_system.kernels.cpu import INSTRUCTION_SETS, cpu_flags, instruction_set, missing_flags


def test_the_flags_are_those_of_the_first_cpu(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: fpu avx2\nbugs\t\t: spectre\nflags\t\t: fpu avx512f\n")
    assert cpu_flags(cpuinfo) == {"fpu", "avx2"}


@pytest.mark.parametrize("text", [None, "processor\t: 0\nFeatures\t: fp asimd\n"])  # macOS, ARM
def test_a_system_that_does_not_tell_has_no_flags(tmp_path, text):
    cpuinfo = tmp_path / "cpuinfo"
    if text is not None:
        cpuinfo.write_text(text)
    assert cpu_flags(cpuinfo) == frozenset()


AVX512, AVX2 = INSTRUCTION_SETS


@pytest.mark.parametrize(
    "flags, expected",
    [
        ({"avx2", "fma", "avx512f", "avx512bw", "avx512_vnni"}, AVX512),
        ({"avx2", "fma", "avx512f", "avx512bw"}, AVX2),  # Skylake-X
        ({"avx2", "fma"}, AVX2),
        ({"avx2"}, None),
        (set(), None),
    ],
)
def test_the_fastest_instructions_that_a_cpu_has_are_chosen(flags, expected):
    assert instruction_set(flags) == expected


def test_what_is_missing_is_what_the_oldest_instructions_need():
    assert missing_flags({"avx", "sse"}) == ["avx2", "fma"]
    assert missing_flags({"avx2"}) == ["fma"]
    assert missing_flags({"avx2", "fma"}) == []
