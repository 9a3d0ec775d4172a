import os
import subprocess
import sys

import pytest
import tensorflow as tf
from cpu_marks import needs_bfloat16_ops

from tfagents_system.networks import bfloat16_ops

FLAGS = frozenset({"fpu", "avx512_bf16"})


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(bfloat16_ops, "cpu_flags", lambda: FLAGS)
    return bfloat16_ops.load.__wrapped__


def fake_compiler(tmp_path, script):
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize(
    "flags, expected",
    [("avx512_bf16", True), ("avx512_bf16 amx_bf16", False), ("amx_bf16", False), ("avx2", False)],
)
def test_the_ops_are_for_cpus_with_avx512_in_bfloat16_and_without_amx(flags, expected):
    assert bfloat16_ops.are_for(frozenset(flags.split())) == expected


def test_a_library_is_compiled_once_for_the_same_source_and_compiler(tmp_path):
    counting = fake_compiler(tmp_path, f'echo >>{tmp_path}/calls; eval "touch \\"\\${{$#}}\\""')
    folder = tmp_path / "ops"
    folder.mkdir()
    first = bfloat16_ops.compiled(folder, counting)
    assert bfloat16_ops.compiled(folder, counting) == first
    assert (tmp_path / "calls").read_text() == "\n"
    assert os.listdir(folder) == [first.name]
    other = bfloat16_ops.compiled(folder, [*counting, "-O1"])
    assert sorted(os.listdir(folder)) == sorted([first.name, other.name])
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path):
    failing = fake_compiler(tmp_path, "echo no such option >&2; exit 3")
    folder = tmp_path / "ops"
    folder.mkdir()
    with pytest.raises(subprocess.SubprocessError, match=r"c\+\+ failed with 3: no such option"):
        bfloat16_ops.compiled(folder, failing)
    assert os.listdir(folder) == []


def test_without_a_compiler_the_products_are_tensorflows_and_a_line_says_so(
    load, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(
        bfloat16_ops, "compiled",
        lambda folder: (_ for _ in ()).throw(FileNotFoundError(2, "No such file", "c++")),
    )  # fmt: skip
    assert load() is None
    assert capsys.readouterr().out == (
        "Matrix products in bfloat16 are TensorFlow's own, which are slower: "
        "[Errno 2] No such file: 'c++'\n"
    )


def test_a_library_that_does_not_load_is_no_error(load, monkeypatch, tmp_path, capsys):
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    monkeypatch.setattr(bfloat16_ops, "compiled", lambda folder: broken)
    assert load() is None
    assert "TensorFlow's own, which are slower: " in capsys.readouterr().out


@needs_bfloat16_ops
@pytest.mark.parametrize(
    "shapes", [([2, 3], [4, 5], [5]), ([2, 3], [3, 5], [4]), ([3], [3, 5], [5])]
)
def test_shapes_that_do_not_fit_are_errors(shapes):
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs do not fit|wrong rank"):
        bfloat16_ops.load().mat_mul_bias_relu(*map(tf.zeros, shapes))


def test_importing_the_networks_compiles_nothing():
    script = (
        "from tfagents_system.networks import bfloat16_ops, encoders\n"
        "print(bfloat16_ops.load.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"
