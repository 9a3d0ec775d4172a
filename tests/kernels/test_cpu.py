import pytest

from tfagents_system.kernels.cpu import cpu_flags, missing_flags


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


def test_what_is_missing_is_named_in_order():
    assert missing_flags(["c", "b", "a"], {"b", "d"}) == ["a", "c"]
    assert missing_flags(["b"], {"b", "d"}) == []
