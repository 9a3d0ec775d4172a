import os
import subprocess
import sys

import pytest
import tensorflow as tf
from cpu_marks import needs_dense_relu_ops

from tfagents_system.networks import dense_relu_ops

FLAGS = frozenset({"fpu", "avx512f", "avx512bw", "avx512_vnni"})


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(dense_relu_ops, "cpu_flags", lambda: FLAGS)
    return dense_relu_ops.load.__wrapped__


def fake_compiler(tmp_path, script):
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize(
    "flags, expected",
    [
        ("fpu avx512f avx512bw avx512_vnni", True),
        ("avx512f avx512bw avx512_vnni avx512_bf16", True),
        ("avx512f avx512bw avx512_vnni avx512_bf16 amx_bf16", False),
        ("avx512f avx512bw", False),
        ("avx2 avx_vnni", False),
    ],
)
def test_the_ops_are_for_cpus_with_avx512_for_integers_of_16_bits_and_without_amx(flags, expected):
    assert dense_relu_ops.are_for(frozenset(flags.split())) == expected


def test_a_library_is_compiled_once_for_the_same_source_and_compiler(tmp_path):
    counting = fake_compiler(tmp_path, f'echo >>{tmp_path}/calls; eval "touch \\"\\${{$#}}\\""')
    folder = tmp_path / "ops"
    folder.mkdir()
    first = dense_relu_ops.compiled(folder, counting)
    assert dense_relu_ops.compiled(folder, counting) == first
    assert (tmp_path / "calls").read_text() == "\n"
    assert os.listdir(folder) == [first.name]
    other = dense_relu_ops.compiled(folder, [*counting, "-O1"])
    assert sorted(os.listdir(folder)) == sorted([first.name, other.name])
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path):
    failing = fake_compiler(tmp_path, "echo no such option >&2; exit 3")
    folder = tmp_path / "ops"
    folder.mkdir()
    with pytest.raises(subprocess.SubprocessError, match=r"c\+\+ failed with 3: no such option"):
        dense_relu_ops.compiled(folder, failing)
    assert os.listdir(folder) == []


def test_without_a_compiler_the_products_are_tensorflows_and_a_line_says_so(
    load, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(
        dense_relu_ops, "compiled",
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
    monkeypatch.setattr(dense_relu_ops, "compiled", lambda folder: broken)
    assert load() is None
    assert "TensorFlow's own, which are slower: " in capsys.readouterr().out


@needs_dense_relu_ops
@pytest.mark.parametrize(
    "shapes", [([2, 3], [4, 5], [5]), ([2, 3], [3, 5], [4]), ([3], [3, 5], [5])]
)
@pytest.mark.parametrize("name", ["mat_mul_bias_relu", "float32_mat_mul_bias_relu"])
def test_shapes_that_do_not_fit_are_errors(shapes, name):
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs do not fit|wrong rank"):
        getattr(dense_relu_ops.load(), name)(*map(tf.zeros, shapes))


def test_importing_the_networks_compiles_nothing():
    script = (
        "from tfagents_system.networks import dense_relu_ops, encoders\n"
        "print(dense_relu_ops.load.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"
