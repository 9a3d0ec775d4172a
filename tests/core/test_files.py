import os

import pytest

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

    def full_disk(self, content):
        raise OSError("no space left")

    monkeypatch.setattr(files.pathlib.Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="no space left"):
        files.write_text_atomically(path, "new")
    assert path.read_text() == "old"


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
