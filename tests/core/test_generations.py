import json
import shutil

import pytest

from tfagents_system.core import generations as lib
from tfagents_system.core.errors import ConfigError


def publish(root, train_step, text="weights"):
    unfinished = root / f".tmp-{train_step}"
    (unfinished / "learner").mkdir(parents=True)
    (unfinished / "learner" / "state").write_text(text)
    (unfinished / "replay").mkdir()
    (unfinished / "replay" / "items").write_bytes(b"\0" * 100)
    lib.publish_generation(unfinished, root, train_step, {"saved_at": 12.5})
    return lib.generation_dir(root, train_step)


def test_published_generation_is_whole_and_has_a_manifest(tmp_path):
    generation = publish(tmp_path, 250, "abc")
    assert generation == tmp_path / "0000000250"
    assert json.loads((generation / "manifest.json").read_text()) == {
        "train_step": 250,
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


def test_folders_without_manifest_and_other_names_are_no_generations(tmp_path):
    generation = publish(tmp_path, 100)
    shutil.copytree(generation, tmp_path / "0000000200")
    (tmp_path / "0000000200" / "manifest.json").unlink()  # killed before it was complete
    shutil.copytree(generation, tmp_path / ".tmp-300")
    shutil.copytree(generation, tmp_path / "backup")
    assert lib.generations(tmp_path) == [generation]


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


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    data = path.read_bytes()
    path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])


@pytest.mark.parametrize(
    ("file", "spoil", "reason"),
    [
        ("replay/items", truncate, "replay/items differs from its checksum"),
        ("replay/items", flip, "replay/items differs from its checksum"),
        ("learner/state", lambda path: path.unlink(), "learner/state is missing"),
        ("manifest.json", truncate, None),  # the last character is a newline: still whole
        ("manifest.json", lambda path: path.write_text("{"), "manifest.json cannot be read"),
        ("manifest.json", lambda path: path.write_text("[]"), "manifest.json cannot be read"),
        ("manifest.json", lambda path: path.write_text("{}"), "manifest.json cannot be read"),
    ],
)
def test_damaged_generation_is_passed_over_for_the_one_before_it(
    tmp_path, capsys, file, spoil, reason
):
    older, newer = publish(tmp_path, 100), publish(tmp_path, 200)
    spoil(newer / file)
    expected = newer if reason is None else older
    assert lib.newest_intact_generation(tmp_path) == expected
    output = capsys.readouterr().out
    if reason is None:
        assert output == ""
    else:
        assert output.startswith(f"Checkpoint {newer} is damaged: ")
        assert reason in output


def test_only_damaged_generations_raise_instead_of_starting_empty(tmp_path):
    for train_step in (100, 200):
        truncate(publish(tmp_path, train_step) / "replay" / "items")
    with pytest.raises(ConfigError) as error:
        lib.newest_intact_generation(tmp_path)
    message = str(error.value)
    assert message.startswith(f"Every checkpoint in {tmp_path} is damaged: ")
    assert "0000000100/replay/items differs" in message
    assert "0000000200/replay/items differs" in message


def test_half_removed_old_generation_is_not_offered_for_restoring(tmp_path, monkeypatch):
    publish(tmp_path, 100)
    publish(tmp_path, 200)

    def killed(path, **kwargs):
        raise SystemExit("killed")

    monkeypatch.setattr(lib.shutil, "rmtree", killed)
    with pytest.raises(SystemExit):
        publish(tmp_path, 300)
    assert [path.name for path in lib.generations(tmp_path)] == ["0000000300", "0000000200"]
