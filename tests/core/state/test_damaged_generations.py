"""Damaged generations are passed over and named; they never count as no checkpoint."""

import contextlib
import errno
import hashlib
import io
import os
import pathlib
import shutil
import tempfile

import hypothesis
import pytest
from fakes import UNRIVALLED
from generation_files import contents, publish, truncate
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError, StorageError
from tfagents_system.core.state import generations as lib
from tfagents_system.core.state import manifests, patience


def flip(path):
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def make_unreadable(path):
    """Also for root, whom permissions do not stop."""
    path.unlink()
    path.symlink_to(path)


def write_manifest(path, manifest):
    """As this system would write it."""
    path.write_text(manifests.manifest_text(manifest))


def list_file(name):
    """Returns what makes the manifest list `name`, with the right checksum of what lies there."""

    def spoil(path):
        outside = path.parents[1] / "outside"
        outside.write_text("abc")
        expected = {"bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
        listed = name.replace("ROOT", str(path.parents[1]))
        write_manifest(path, {"train_step": 200, "files": {listed: expected}})

    return spoil


DAMAGE = {
    "truncated": ("replay/items", truncate, "replay/items differs from its checksum"),
    "bit flipped": ("replay/items", flip, "replay/items differs from its checksum"),
    "emptied": ("replay/items", lambda p: p.write_bytes(b""), "replay/items differs from its"),
    "missing": ("learner/state", lambda p: p.unlink(), "learner/state is missing"),
    "folder": ("learner/state", replace_by_folder, "learner/state cannot be read (not a file)"),
    "named pipe": ("learner/state", replace_by_pipe, "learner/state cannot be read (not a file)"),
    "unreadable": ("learner/state", make_unreadable, "learner/state cannot be read (Too many le"),
    "file instead of its folder": (
        "learner", lambda p: (shutil.rmtree(p), p.touch()), "state cannot be read (Not a directory)"
    ),
} | {
    f"manifest {name}": ("manifest.json", spoil, f"manifest.json {reason}")
    for name, (spoil, reason) in {
        "truncated": (truncate, "cannot be read (differs from its checksum)"),
        "bit flipped": (flip, "cannot be read ("),
        "emptied": (lambda p: p.write_bytes(b""), "cannot be read (Expecting value"),
        "missing": (lambda p: p.unlink(), "is missing"),
        "folder": (replace_by_folder, "cannot be read (not a file)"),
        "named pipe": (replace_by_pipe, "cannot be read (not a file)"),
        "unreadable": (make_unreadable, "cannot be read (Too many levels"),
        "not text": (lambda p: p.write_bytes(b"\xff\xfe\0"), "cannot be read ("),
        "deeply nested": (lambda p: p.write_text("[" * 100_000), "cannot be read ("),
        "a list": (lambda p: p.write_text("[]"), "cannot be read (not a manifest)"),
        "without checksum": (lambda p: p.write_text("{}"), "cannot be read (differs from its"),
        "without files": (lambda p: write_manifest(p, {}), "cannot be read (lists no files)"),
        "files a list": (lambda p: write_manifest(p, {"files": []}), "cannot be read (lists no"),
        "file a number": (lambda p: write_manifest(p, {"files": {"a": 3}}), "cannot be read (ha"),
        "no size": (lambda p: write_manifest(p, {"files": {"a": {"sha256": 0}}}), "cannot be read"),
        "outside": (list_file("../outside"), "cannot be read (lists '../outside', which is outs"),
        "far outside": (list_file("replay/../../outside"), "cannot be read (lists 'replay/../../o"),
        "absolute": (list_file("ROOT/outside"), "cannot be read (lists '/"),
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_generation_is_passed_over_for_the_one_before_it(tmp_path, capsys, case):
    file, spoil, reason = DAMAGE[case]
    older, newer = publish(tmp_path, 100), publish(tmp_path, 200)
    spoil(newer / file)
    assert lib.newest_intact_generation(tmp_path) == older
    output = capsys.readouterr().out
    assert output.startswith(f"Checkpoint {newer} is damaged: {newer}/")
    assert reason in output
    assert output.endswith("; trying the one before it.\n")


def test_file_name_of_another_kind_in_the_manifest_is_damage(tmp_path):
    for number, name in enumerate(("", ".", "replay", "a\0b", "\ud800", "x" * 5000)):
        older, newer = publish(tmp_path, 10 * number), publish(tmp_path, 10 * number + 5)
        list_file(name)(newer / "manifest.json")
        assert lib.newest_intact_generation(tmp_path) == older, name


def test_only_damaged_generations_raise_instead_of_starting_empty(tmp_path):
    for train_step in (100, 200):
        truncate(publish(tmp_path, train_step) / "replay" / "items")
    with pytest.raises(ConfigError) as error:
        lib.newest_intact_generation(tmp_path)
    message = str(error.value)
    assert message.startswith(f"Every checkpoint in {tmp_path} is damaged: ")
    assert "0000000100/replay/items differs" in message
    assert "0000000200/replay/items differs" in message


def test_only_generation_without_its_manifest_is_damaged_and_not_absent(tmp_path):
    (publish(tmp_path, 100) / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="is damaged: .*0000000100/manifest.json is missing"):
        lib.newest_intact_generation(tmp_path)


@st.composite
def mutations(draw):
    """One change of one file: (its name, what it does to the path and to its content)."""
    name = draw(st.sampled_from(["manifest.json", "learner/state", "replay/items", "replay/DONE"]))
    kinds = ["delete", "replace by folder"]
    if name != "replay/DONE":  # which is empty as it is
        kinds += ["truncate", "flip", "flip", "empty"]
    where = draw(st.floats(0, 1, exclude_max=True))
    return name, draw(st.sampled_from(kinds)), where, draw(st.integers(0, 7))


def mutate(generation, mutation):
    name, kind, where, bit = mutation
    path = generation / name
    content = path.read_bytes()
    offset = int(where * len(content))
    if kind == "truncate":
        path.write_bytes(content[:offset])
    elif kind == "flip":
        flipped = bytes([content[offset] ^ (1 << bit)])
        path.write_bytes(content[:offset] + flipped + content[offset + 1 :])
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        if kind == "replace by folder":
            path.mkdir()
    return path


@pytest.fixture(scope="module")
def two_generations(tmp_path_factory):
    root = tmp_path_factory.mktemp("two")
    for train_step in (100, 200):
        generation = publish(root, train_step)
        (generation / "manifest.json").unlink()
        (generation / "replay" / "DONE").touch()
        shutil.move(generation, root / f".tmp-{train_step}")
        lib.publish_generation(
            root / f".tmp-{train_step}", root, train_step, {"saved_at": 12.5}, UNRIVALLED
        )
    return root


@pytest.mark.fault_row("damaged generations")
@hypothesis.given(mutations(), mutations())
@hypothesis.settings(max_examples=150)
def test_any_single_change_of_any_file_is_found_and_named(two_generations, newer, older):
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
        root = pathlib.Path(folder, "checkpoints")
        shutil.copytree(two_generations, root)
        first = mutate(root / "0000000200", newer)
        assert lib.newest_intact_generation(root) == root / "0000000100"
        assert f" is damaged: {first} " in output.getvalue()
        second = mutate(root / "0000000100", older)
        with pytest.raises(ConfigError) as error:
            lib.newest_intact_generation(root)
        assert f"{first} " in str(error.value) and f"{second} " in str(error.value)


TAKEN_NAMES = ("", ".", "..", "0000000100", "0000000200")
NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), max_size=40)


@pytest.mark.fault_row("malformed input")
@hypothesis.given(NAMES.filter(lambda name: name not in TAKEN_NAMES))
@hypothesis.example("300")
@hypothesis.example("0000000300")
@hypothesis.example("\N{FULLWIDTH DIGIT TWO}" * 10)
@hypothesis.settings(max_examples=200)
def test_a_folder_of_any_other_name_is_not_restored(two_generations, name):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        root = pathlib.Path(folder, "checkpoints")
        shutil.copytree(two_generations, root)
        (root / name).mkdir()
        assert lib.newest_intact_generation(root) == root / "0000000200"


TRANSIENT = [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN]


def failing(call, number, num_failures, where):
    """Wraps `call`, which fails so often where an argument ends so."""
    left = [num_failures]

    def wrapped(path=".", *arguments, **options):
        if left[0] and str(path).endswith(where):
            left[0] -= 1
            raise OSError(number, os.strerror(number), str(path))
        return call(path, *arguments, **options)

    return wrapped


@pytest.mark.parametrize("number", TRANSIENT)
@pytest.mark.parametrize(
    ("name", "where"),
    [("listdir", "checkpoints"), ("stat", "manifest.json"), ("stat", "replay/items")],
)
def test_disk_that_does_not_answer_for_a_moment_is_asked_again(
    tmp_path, monkeypatch, number, name, where
):
    root = tmp_path / "checkpoints"
    for step in (100, 200):
        publish(root, step)
    monkeypatch.setattr(patience.time, "sleep", lambda secs: None)
    monkeypatch.setattr(os, name, failing(getattr(os, name), number, 3, where))
    assert lib.newest_intact_generation(root) == root / "0000000200"


@pytest.mark.parametrize("number", TRANSIENT)
@pytest.mark.parametrize(("name", "where"), [("listdir", "checkpoints"), ("stat", "replay/items")])
def test_disk_that_does_not_answer_for_long_ends_with_a_sentence_and_changes_nothing(
    tmp_path, monkeypatch, number, name, where
):
    root = tmp_path / "checkpoints"
    for step in (100, 200):
        publish(root, step)
    before = contents(root)
    monkeypatch.setattr(patience, "PATIENCE_SECS", 0.05)
    monkeypatch.setattr(patience, "FIRST_DELAY_SECS", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), number, 10**6, where))
        with pytest.raises(StorageError) as error:
            lib.newest_intact_generation(root)
    assert os.strerror(number) in str(error.value) and str(root) in str(error.value)
    assert contents(root) == before


def test_one_that_cannot_be_read_just_now_is_not_missing_from_the_manifests(tmp_path, monkeypatch):
    for step in (100, 200):
        publish(tmp_path, step)
    path = "0000000200/manifest.json"
    monkeypatch.setattr(os, "stat", failing(os.stat, errno.EIO, 1, path))
    with pytest.raises(OSError, match="Input/output error"):
        lib.read_manifests(tmp_path)
    assert [m["train_step"] for m in lib.read_manifests(tmp_path)] == [200, 100]
