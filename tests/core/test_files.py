import os

import pytest
from small_disk import small_disk

from tfagents_system.core import files


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
