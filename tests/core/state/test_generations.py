import hashlib
import json
import os
import pathlib
import shutil

import pytest
from fakes import UNRIVALLED
from generation_files import contents, publish, truncate

from tfagents_system.core.errors import ConfigError, SupersededError
from tfagents_system.core.state import files, manifests
from tfagents_system.core.state import generations as lib
from tfagents_system.core.state.incarnation import CORE, Claims, Fence


def test_published_generation_is_whole_and_has_a_manifest(tmp_path):
    generation = publish(tmp_path, 250, "abc")
    assert generation == tmp_path / "0000000250"
    manifest = json.loads((generation / "manifest.json").read_text())
    digest = manifest.pop("sha256")
    assert digest == hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    assert manifest == {
        "train_step": 250,
        "incarnation": 0,
        "saved_at": 12.5,
        "files": {
            "learner/state": {
                "bytes": 3,  # SHA-256 of "abc" from FIPS 180-2, appendix B.1
                "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            },
            "replay/items": {
                "bytes": 100,
                "sha256": "cd00e292c5970d3c5e2f0ffa5171e555bc46bfc4faddfb4a418b6840b86e79a3",
            },
        },
    }
    assert not (tmp_path / ".tmp-250").exists()
    assert lib.newest_intact_generation(tmp_path) == generation


def test_newest_two_are_kept_in_the_order_of_train_steps(tmp_path):
    for train_step in (90, 100, 1000):
        publish(tmp_path, train_step)
    assert [path.name for path in lib.generations(tmp_path)] == ["0000001000", "0000000100"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000100", "0000001000"]


def test_no_generation_yet_is_none(tmp_path):
    assert lib.newest_intact_generation(tmp_path) is None
    assert lib.newest_intact_generation(tmp_path / "absent") is None


def test_files_and_folders_of_others_are_no_generations_and_stay(tmp_path, capsys):
    generation = publish(tmp_path, 100)
    names = ("backup", "2024", "00000000000300", "-000000300", "0000000300.old", "\u0663" * 10)
    for name in names:
        shutil.copytree(generation, tmp_path / name)
    (tmp_path / "notes.txt").touch()
    (generation / "notes.txt").touch()
    (generation / "replay" / "9999").mkdir()
    assert lib.generations(tmp_path) == [generation]
    assert lib.newest_intact_generation(tmp_path) == generation
    assert capsys.readouterr().out == ""
    for train_step in (200, 300, 400):
        publish(tmp_path, train_step)
    assert {path.name for path in tmp_path.iterdir()} == {
        "0000000300", "0000000400", "notes.txt", *names,
    }  # fmt: skip


def test_generations_are_ordered_by_train_step_beyond_ten_digits(tmp_path):
    for train_step in (9_999_999_999, 10_000_000_000):
        publish(tmp_path, train_step)
    assert [path.name for path in lib.generations(tmp_path)] == ["10000000000", "9999999999"]


def test_later_generation_that_was_passed_over_does_not_displace_a_whole_one(tmp_path):
    publish(tmp_path, 100)
    truncate(publish(tmp_path, 200) / "replay" / "items")
    assert lib.newest_intact_generation(tmp_path) == lib.generation_dir(tmp_path, 100)
    publish(tmp_path, 150)
    assert [path.name for path in lib.generations(tmp_path)] == ["0000000150", "0000000100"]


def test_folder_of_checkpoints_that_cannot_be_read_is_no_empty_one(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(ConfigError, match=r"checkpoints cannot be read \(Not a directory\)"):
        lib.newest_intact_generation(tmp_path / "checkpoints")


def test_generation_saved_again_at_the_same_step_is_replaced(tmp_path):
    publish(tmp_path, 100)
    publish(tmp_path, 200, "old")
    generation = publish(tmp_path, 200, "new")
    assert (generation / "learner" / "state").read_text() == "new"
    assert lib.newest_intact_generation(tmp_path) == generation
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000100", "0000000200"]


def test_kill_while_the_same_step_is_saved_again_leaves_it_restorable(tmp_path, monkeypatch):
    publish(tmp_path, 200, "old")

    def killed_after_the_first_file(path, **kwargs):
        if not path.exists():
            return
        next(p for p in sorted(path.rglob("*")) if p.is_file()).unlink()
        raise SystemExit("killed")

    monkeypatch.setattr(lib.shutil, "rmtree", killed_after_the_first_file)
    with pytest.raises(SystemExit):
        publish(tmp_path, 200, "new")
    generation = lib.newest_intact_generation(tmp_path)
    assert (generation / "learner" / "state").read_text() == "new"


class Killed(BaseException):
    """Nothing catches it, so what it interrupts stays as it is."""


def kill_at_rename(monkeypatch, number, after):
    """Kills at the `number`-th rename of a folder, before or after it is done."""
    count = 0
    replace = os.replace

    def replace_or_die(source, target):
        nonlocal count
        count += pathlib.Path(source).is_dir()
        is_last = count == number and pathlib.Path(source).is_dir()
        if is_last and not after:
            raise Killed
        replace(source, target)
        if is_last:
            raise Killed

    monkeypatch.setattr(lib.os, "replace", replace_or_die)


@pytest.mark.parametrize("num_older", [0, 1])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_kill_at_any_rename_of_a_save_loses_nothing(
    tmp_path, monkeypatch, capsys, number, after, num_older
):
    for train_step in (100, 200)[-num_older - 1 :]:
        publish(tmp_path, train_step, "old")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at_rename(patch, number, after)
        publish(tmp_path, 200, "new")
    generation = lib.newest_intact_generation(tmp_path)  # as the replay server, which does not wait
    assert generation == lib.generation_dir(tmp_path, 200)
    text = "new" if (number, after) == (2, True) else "old"
    assert (generation / "learner/state").read_text() == text
    lib.clear_unfinished(tmp_path, UNRIVALLED)
    assert lib.newest_intact_generation(tmp_path) == generation
    names = ["0000000200", "0000000100"][: num_older + 1]
    assert [path.name for path in tmp_path.iterdir() if path.name not in names] == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_kill_while_an_old_generation_is_dropped_leaves_no_damaged_one(
    tmp_path, monkeypatch, capsys, number, after
):
    for train_step in (100, 200):
        publish(tmp_path, train_step)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at_rename(patch, number, after)
        publish(tmp_path, 300)
    steps = {(1, False): [200, 100], (2, True): [300, 200]}.get((number, after), [300, 200, 100])
    assert [int(path.name) for path in lib.generations(tmp_path)] == steps
    assert int(lib.newest_intact_generation(tmp_path).name) == steps[0]
    lib.clear_unfinished(tmp_path, UNRIVALLED)
    assert [int(path.name) for path in lib.generations(tmp_path)] == steps
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert capsys.readouterr().out == ""


def test_half_removed_old_generation_is_not_offered_for_restoring(tmp_path, monkeypatch):
    publish(tmp_path, 100)
    publish(tmp_path, 200)

    def killed(path, **kwargs):
        raise SystemExit("killed")

    monkeypatch.setattr(lib.shutil, "rmtree", killed)
    with pytest.raises(SystemExit):
        publish(tmp_path, 300)
    assert [path.name for path in lib.generations(tmp_path)] == ["0000000300", "0000000200"]


def test_clearing_removes_folders_and_files_of_unfinished_saves_only(tmp_path):
    generation = publish(tmp_path, 100)
    shutil.copytree(generation, tmp_path / ".tmp-200")
    shutil.copytree(generation, tmp_path / ".tmp-replaced-100")
    shutil.copytree(generation, tmp_path / ".tmp-replaced-x")
    (tmp_path / ".tmp-file").touch()
    (tmp_path / ".tmp-link").symlink_to(generation)
    (tmp_path / "mine").touch()
    lib.clear_unfinished(tmp_path, UNRIVALLED)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000100", "mine"]
    assert lib.newest_intact_generation(tmp_path) == generation


def test_a_superseded_learner_leaves_all_generations_as_they_are(tmp_path):
    claims = Claims(tmp_path / "incarnations")
    fence = Fence(claims, CORE, claims.claim(CORE))
    root = tmp_path / "checkpoints"
    unfinished = root / ".tmp-mine"
    for train_step in (100, 200):
        publish(root, train_step)
    claims.claim(CORE)
    before = contents(root)
    for train_step in (200, 300):  # would replace one, would drop one
        unfinished.mkdir()
        (unfinished / "state").write_text("old")
        with pytest.raises(SupersededError):
            lib.publish_generation(unfinished, root, train_step, {}, fence)
        shutil.rmtree(unfinished)
    assert contents(root) == before


def make_unfinished(root, train_step):
    unfinished = lib.unfinished_dir(root, train_step, UNRIVALLED)
    (unfinished / "replay").mkdir(parents=True)
    for name in ("items", "chunks"):
        (unfinished / "replay" / name).write_bytes(b"x" * 100)
    return unfinished


REQUIRED = ("replay/items", "replay/chunks")


@pytest.mark.parametrize("train_step", [200, 300])
@pytest.mark.parametrize("moment", ["before", "after it was read", "after it was synced"])
def test_generation_of_which_a_file_vanishes_is_not_published(
    tmp_path, monkeypatch, moment, train_step
):
    """As when a later start clears away what the replay server has just written."""
    for step in (100, 200):
        publish(tmp_path, step)
    unfinished = make_unfinished(tmp_path, train_step)
    chunks = unfinished / "replay" / "chunks"
    write, sync = manifests.write_manifest, files.sync_tree
    with monkeypatch.context() as patch, pytest.raises(FileNotFoundError, match="replay/chunks"):
        if moment == "before":
            chunks.unlink()
        elif moment == "after it was read":
            patch.setattr(lib, "write_manifest", lambda *args: (write(*args), chunks.unlink()))
        else:
            patch.setattr(files, "sync_tree", lambda path: (sync(path), chunks.unlink()))
        lib.publish_generation(unfinished, tmp_path, train_step, {}, UNRIVALLED, REQUIRED)
    assert [int(path.name) for path in lib.generations(tmp_path)] == [200, 100]
    assert lib.newest_intact_generation(tmp_path) == tmp_path / "0000000200"
