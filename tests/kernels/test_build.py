import os
import pathlib
import platform
import shutil
import stat
import time

import pytest

from tfagents_system.kernels import build, shared_library
from tfagents_system.kernels.cpu import INSTRUCTION_SETS, cpu_flags, instruction_set
from tfagents_system.kernels.ops import load_ops
from tfagents_system.kernels.shared_library import LibraryError, find_library

FLAGS = frozenset({"fpu", "avx2", "fma"})
OTHER_CPU = next(one.cpu_flags for one in INSTRUCTION_SETS if one != instruction_set(cpu_flags()))
CALLS = "calls"
WRITES_ITS_OUTPUT = f'echo >>"$(dirname "$0")"/{CALLS}; eval "touch \\"\\${{$#}}\\""'


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ops"
    path.mkdir()
    return path


def fake_compiler(tmp_path, script=WRITES_ITS_OUTPUT, version="fake c++ 1"):
    path = tmp_path / "c++"
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo {version}; exit; fi\n{script}\n'
    )
    path.chmod(0o755)
    return str(path)


def num_calls(tmp_path):
    return len((tmp_path / CALLS).read_text().splitlines())


def test_a_library_is_built_once_for_the_same_source_compiler_and_system(tmp_path, folder, capsys):
    compiler = fake_compiler(tmp_path)
    assert build.main(folder=folder, compiler=compiler, flags=FLAGS) == 0
    (name,) = os.listdir(folder)
    assert capsys.readouterr().out == f"Compiled ops: {folder / name} was built.\n"
    assert build.main(folder=folder, compiler=compiler, flags=FLAGS) == 0
    assert capsys.readouterr().out == f"Compiled ops: {folder / name} is up to date.\n"
    assert num_calls(tmp_path) == 1
    assert find_library(folder) == folder / name


def test_another_compiler_replaces_the_library(tmp_path, folder):
    before, _ = build.build(folder, fake_compiler(tmp_path))
    after, _ = build.build(folder, fake_compiler(tmp_path, version="fake c++ 2"))
    assert before != after and os.listdir(folder) == [after.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda patch, tmp_path: patch.setattr(platform, "libc_ver", lambda: ("glibc", "9.9")),
        lambda patch, tmp_path: patch.setattr(
            shared_library, "versions", lambda package: ["2.16.0"]
        ),
        lambda patch, tmp_path: patch.setattr(shared_library, "COMPILER_FLAGS", ("-O1",)),
        lambda patch, tmp_path: patch.setattr(shared_library, "cpu_flags", lambda: OTHER_CPU),
    ],
    ids=["C library", "TensorFlow", "flags", "CPU"],
)
def test_a_host_that_differs_builds_its_own_library_and_keeps_others_until_they_are_old(
    tmp_path, folder, monkeypatch, change
):
    compiler = fake_compiler(tmp_path)
    before, _ = build.build(folder, compiler)
    change(monkeypatch, tmp_path)
    after, _ = build.build(folder, compiler)
    assert sorted(os.listdir(folder)) == sorted([before.name, after.name])
    assert num_calls(tmp_path) == 2
    built_at = time.time() - build.OLD_AFTER_SECS - 60
    for library in (before, after):
        os.utime(library, (built_at, built_at))
    build.build(folder, compiler)
    assert os.listdir(folder) == [after.name]


@pytest.mark.parametrize("changed", [shared_library.SOURCE.name, "registers.h"])
def test_another_source_builds_another_library(tmp_path, folder, monkeypatch, changed):
    before, _ = build.build(folder, fake_compiler(tmp_path))
    sources = shutil.copytree(shared_library.SOURCE.parent, tmp_path / "sources")
    with (sources / changed).open("a") as file:
        file.write("\n")
    monkeypatch.setattr(shared_library, "SOURCE", sources / shared_library.SOURCE.name)
    with pytest.raises(LibraryError, match="^the compiled ops are outdated; build them with: pyth"):
        find_library(folder)
    after, _ = build.build(folder, fake_compiler(tmp_path))
    assert (before != after, find_library(folder)) == (True, after)


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path, folder, capsys):
    compiler = fake_compiler(tmp_path, "echo no such option >&2; exit 3")
    assert build.main(folder=folder, compiler=compiler, flags=FLAGS) == 1
    assert capsys.readouterr().out == (
        f"Compiled ops: the build failed: {compiler} failed with 3: no such option\n"
    )
    assert os.listdir(folder) == []


def test_without_a_compiler_or_the_instructions_nothing_is_built_and_that_is_no_failure(
    tmp_path, folder, capsys
):
    assert build.main(folder=folder, compiler=str(tmp_path / "none"), flags=FLAGS) == 0
    assert "not built, because there is no C++ compiler" in capsys.readouterr().out
    assert build.main(folder=folder, compiler=fake_compiler(tmp_path), flags={"fpu", "avx2"}) == 0
    assert capsys.readouterr().out == ("Compiled ops: not for this CPU, which lacks fma.\n")
    assert os.listdir(folder) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, capsys):
    folder = tmp_path / "none"
    assert build.main(folder=folder, compiler=fake_compiler(tmp_path), flags=FLAGS) == 1
    assert f"the build failed: {folder}" in capsys.readouterr().out


def test_it_is_built_in_the_cache_of_a_user_who_may_not_write_beside_the_source(
    tmp_path, folder, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert shared_library.choose_folder(folder) == folder
    monkeypatch.setattr(shared_library.os, "access", lambda path, mode: path != folder)
    cache = tmp_path / "cache" / "tfagents_system"
    assert shared_library.choose_folder(folder) == cache
    monkeypatch.setattr(build, "FOLDER", cache)
    library, _ = build.build(cache, fake_compiler(tmp_path))
    assert (library.parent, find_library(cache)) == (cache, library)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700

    shutil.copy(library, folder)  # as an administrator's setup leaves it
    assert shared_library.choose_folder(folder) == folder
    monkeypatch.setattr(shared_library, "COMPILER_FLAGS", ("-O1",))  # that one is outdated
    assert shared_library.choose_folder(folder) == cache


def test_a_missing_library_is_built_before_a_run_and_an_existing_one_is_not(
    tmp_path, folder, monkeypatch, capsys
):
    monkeypatch.setattr(build, "cpu_flags", lambda: FLAGS)
    monkeypatch.setattr(build, "COMPILER", fake_compiler(tmp_path))
    monkeypatch.setattr(build, "FOLDER", folder)
    answer = f'#!/bin/sh\necho "$*" >>{tmp_path}/started; echo Compiled ops: x was built.\n'
    python = tmp_path / "python"
    python.write_text(answer)
    python.chmod(0o755)
    monkeypatch.setattr(build.sys, "executable", str(python))
    build.build_if_missing()
    started = (tmp_path / "started").read_text()
    assert started == "-m tfagents_system.kernels.build\n"
    assert capsys.readouterr().err == "Compiled ops: x was built.\n"
    build.build(folder, build.COMPILER)
    build.build_if_missing()
    assert (tmp_path / "started").read_text() == started
    assert capsys.readouterr().err == ""


def test_no_library_is_found_where_none_was_built(folder):
    (folder / "dense_relu-ffffffffffff-000000000000.txt").touch()
    with pytest.raises(LibraryError, match="have not been built; build them with: python -m tfag"):
        find_library(folder)


@pytest.mark.parametrize("may_write", [stat.S_IWGRP, stat.S_IWOTH])
def test_a_library_that_other_users_may_change_is_not_loaded(tmp_path, folder, may_write):
    umask = os.umask(0)
    try:
        path, _ = build.build(folder, fake_compiler(tmp_path))
    finally:
        os.umask(umask)
    assert find_library(folder) == path
    path.chmod(0o755 | may_write)
    with pytest.raises(LibraryError, match="may be changed by other users; delete it"):
        find_library(folder)


def test_a_library_that_does_not_load_says_how_to_mend_it(tmp_path, folder):
    path, _ = build.build(folder, fake_compiler(tmp_path))  # an empty file
    with pytest.raises(LibraryError, match=f"{path} does not load .*; delete it and build it with"):
        load_ops(folder)
    assert pathlib.Path(path).exists()
