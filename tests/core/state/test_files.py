import errno
import os
import stat

import pytest
from small_disk import small_disk

from tfagents_system.core.state import files


def test_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("old")
    files.write_json_atomically(path, {"step": 3})
    assert files.read_json(path) == {"step": 3}
    assert path.read_text().endswith("}\n")
    assert os.listdir(tmp_path) == ["state.json"]


def test_write_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    path.write_text("old")

    def full_disk(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(OSError, match="no space left"):
        files.write_text_atomically(path, "new")
    assert path.read_text() == "old"


@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_write_that_is_refused_names_the_file_that_was_to_be_written(tmp_path, monkeypatch, call):
    def refuse(path, *arguments):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(files.os, call, refuse)
    with pytest.raises(PermissionError) as caught:
        files.write_text_atomically(tmp_path / "pause.json", "{}")
    assert caught.value.filename == str(tmp_path / "pause.json")


def test_write_on_a_full_disk_leaves_nothing_behind():
    with small_disk(1 << 20) as disk:
        folder = disk.folder / "status"
        folder.mkdir()
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            files.write_text_atomically(folder / "state.json", "new")
        assert os.listdir(folder) == []


def test_appended_content_is_whole_or_not_there():
    with small_disk(1 << 20) as disk:
        path = disk.folder / "tape"
        files.append_whole(path, b"x" * 3000)
        disk.fill()
        for _ in range(2):  # 1096 bytes would fit
            with pytest.raises(OSError, match="No space left"):
                files.append_whole(path, b"y" * 2000)
            assert path.read_bytes() == b"x" * 3000
        files.append_whole(path, b"z" * 1096)
        disk.free()
        files.append_whole(path, b"y")
        assert path.read_bytes() == b"x" * 3000 + b"z" * 1096 + b"y"


def test_overwriting_needs_no_space():
    with small_disk(1 << 20) as disk:
        path = disk.folder / "exit_code"
        files.overwrite(path, b"\n" * 4)
        disk.fill()
        files.overwrite(path, b"143\n")
        assert path.read_bytes() == b"143\n"
        files.overwrite(path, b"0\n")
        assert path.read_bytes() == b"0\n\n\n"
        with pytest.raises(OSError, match="No space left.*exit_code"):
            files.overwrite(path, b"x" * 5000)
        with pytest.raises(OSError, match="No space left"):
            files.overwrite(disk.folder / "new", b"0\n")


def test_value_that_is_not_json_keeps_the_old_file(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("old")
    with pytest.raises(TypeError, match="not JSON serializable"):
        files.write_json_atomically(path, {"step": object()})
    assert path.read_text() == "old"


def test_read_json_of_no_file_is_none(tmp_path):
    assert files.read_json(tmp_path / "absent.json") is None


def test_read_json_of_a_broken_file_raises(tmp_path):
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(ValueError, match="Expecting property name"):
        files.read_json(tmp_path / "state.json")


def test_content_is_synced_before_a_rename_and_names_after_it(tmp_path, monkeypatch):
    """Also where no disk can be cut off: tests/core/test_power_cut.py."""
    tape = []
    (tmp_path / "new" / "inner").mkdir(parents=True)
    (tmp_path / "there").mkdir()
    for name in ("new/a", "new/inner/b"):
        (tmp_path / name).write_text(name)
    paths = {os.stat(path).st_ino: path.name for path in [tmp_path, *tmp_path.rglob("*")]}
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda d: tape.append(paths[os.fstat(d).st_ino]))
    monkeypatch.setattr(os, "replace", lambda *names: (tape.append("rename"), replace(*names)))
    files.rename_durably(
        tmp_path / "new", tmp_path / "there" / "final", lambda: tape.append("prepare")
    )
    assert tape == ["b", "inner", "a", "new", "prepare", "rename", "there", tmp_path.name]
    assert (tmp_path / "there" / "final" / "inner" / "b").read_text() == "new/inner/b"


def test_a_file_system_that_cannot_sync_folders_is_no_error_and_others_are(tmp_path, monkeypatch):
    def fail_with(number):
        def fail(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))

        return fail

    monkeypatch.setattr(os, "fsync", fail_with(errno.EINVAL))
    files.write_json_durably(tmp_path / "state.json", {"step": 3})
    assert files.read_json(tmp_path / "state.json") == {"step": 3}
    monkeypatch.setattr(os, "fsync", fail_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.write_json_durably(tmp_path / "state.json", {"step": 4})
