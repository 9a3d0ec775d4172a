import json

import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.episode_file import (
    digest,
    episode_of,
    named_leaves,
    read_episode,
    write_episode,
)
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.recorder import Recorder


def arrays_of(length=3, scale=1.0):
    steps = np.arange(length + 1, dtype=np.float32)
    return {
        "observation/arm": scale * np.stack([steps, steps + 0.5], axis=1),
        "observation/camera": np.zeros([length + 1, 4, 4, 3], np.uint8),
        "action": -steps[:-1, np.newaxis],
        "reward": 10 * steps[1:],
    }


def test_a_written_episode_is_read_as_it_was(tmp_path):
    path = tmp_path / "one.npz"
    write_episode(path, episode_of(arrays_of(), "terminated", "Arm-v0"))
    episode = read_episode(path)
    assert (episode.length, episode.end, episode.environment) == (3, "terminated", "Arm-v0")
    assert episode.spec == {
        "observation/arm": "float32 [2]",
        "observation/camera": "uint8 [4, 4, 3]",
        "action": "float32 [1]",
        "reward": "float32 []",
    }
    for name, array in arrays_of().items():
        np.testing.assert_array_equal(episode.arrays[name], array)
    assert [path.name for path in tmp_path.iterdir()] == ["one.npz"]


def test_numpy_alone_reads_the_documented_parts(tmp_path):
    write_episode(tmp_path / "one.npz", episode_of(arrays_of(), "truncated"))
    with np.load(tmp_path / "one.npz") as archive:
        head = json.loads(str(archive["head"]))
        assert archive["reward"].tolist() == [10, 20, 30]
    assert head == {
        "format": "sac-demonstration",
        "version": 1,
        "environment": None,
        "end": "truncated",
        "arrays": {
            "observation/arm": "float32 [4, 2]",
            "observation/camera": "uint8 [4, 4, 4, 3]",
            "action": "float32 [3, 1]",
            "reward": "float32 [3]",
        },
    }


def write_with_head(path, **changes):
    arrays = arrays_of()
    layout = {name: f"{array.dtype.name} {list(array.shape)}" for name, array in arrays.items()}
    head = {"format": "sac-demonstration", "version": 1, "environment": None, "end": "truncated"}
    text = json.dumps(head | {"arrays": layout} | changes)
    np.savez(path, head=np.array(text), **arrays)


def test_damaged_and_foreign_files_are_refused_by_path_and_key(tmp_path):
    path = tmp_path / "bad.npz"
    write_episode(path, episode_of(arrays_of(), "terminated"))
    content = path.read_bytes()
    files = {
        "damaged, or no .npz": lambda: path.write_bytes(content[: len(content) // 2]),
        "no .npz file": lambda: np.save(path.open("wb"), np.ones(3)),
        "no head": lambda: np.savez(path, weights=np.ones(3)),
        "not a demonstration: its head": lambda: write_with_head(path, format="policy"),
        "version 2 of the format": lambda: write_with_head(path, version=2),
        "damaged: its head": lambda: write_with_head(path, end="soon"),
        "damaged: action is float32": lambda: write_with_head(path, arrays={}),
    }
    for message, write in files.items():
        write()
        with pytest.raises(ConfigError, match=message) as raised:
            read_episode(path)
        assert str(path) in str(raised.value)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        read_episode(path)


def test_two_leaves_of_one_name_are_refused():
    assert named_leaves({"a_b": 1, "a": {"b": 2}}, "action") == {"action/a_b": 1, "action/a/b": 2}
    message = r"The action has the leaves \['a', 'b'\] and \['a/b'\], which are both 'action/a/b'"
    with pytest.raises(ConfigError, match=message):
        named_leaves({"a/b": 1, "a": {"b": 2}}, "action")


def test_a_pickle_is_never_loaded(tmp_path):
    np.savez(tmp_path / "bad.npz", head=np.array({"format": 1}, object))
    with pytest.raises(ConfigError, match="damaged"):
        read_episode(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"reward": np.zeros(0, np.float32)}, "at least one env step"),
        ({"reward": np.zeros((3, 1), np.float32)}, r"reward has shape \[3, 1\]"),
        ({"action": np.zeros([4, 1])}, r"action has shape \[4, 1\].* 3 entries"),
        ({"observation/arm": np.zeros([3, 2])}, "observation/arm .* 4 entries"),
        ({"mask": np.zeros(3)}, "mask is not an array of a demonstration"),
        ({"reward/main": np.zeros(3)}, "reward/main is not an array"),
    ],
)
def test_arrays_that_make_no_episode_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        episode_of(arrays_of() | changes, "terminated")


def record(folder, length, terminated=True):
    recorder = Recorder(folder, "Arm-v0")
    observation = np.zeros(2)  # of the environment, which overwrites it
    recorder.reset({"arm": observation, "light": True})
    for step in range(1, length + 1):
        observation += 1
        is_last = step == length
        path = recorder.step(
            [0.5 * step], {"arm": observation, "light": False}, step,
            is_last and terminated, is_last and not terminated,
        )  # fmt: skip
        assert (path is not None) == is_last
    return path


def test_a_recorder_writes_each_episode_when_it_ends(tmp_path):
    folder = tmp_path / "new" / "folder"
    assert record(folder, 2).name == "episode_000000.npz"
    assert record(folder, 3, terminated=False).name == "episode_000001.npz"
    first, second = read_demonstrations(folder)
    assert (first.end, second.end, first.environment) == ("terminated", "truncated", "Arm-v0")
    assert first.observations["observation/arm"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert first.observations["observation/light"].tolist() == [1, 0, 0]
    assert second.actions["action"].tolist() == [[0.5], [1.0], [1.5]]
    assert second.rewards.tolist() == [1, 2, 3]
    assert first.spec == {"observation/arm": "float32 [2]", "observation/light": "uint8 []",
                          "action": "float32 [1]", "reward": "float32 []"}  # fmt: skip


def test_an_unfinished_episode_is_dropped_at_the_next_reset(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.reset([1.0])
    recorder.step([0.0], [2.0], 0.0, False, False)
    recorder.reset([5.0])
    recorder.step([0.0], [6.0], 0.0, True, False)
    (episode,) = read_demonstrations(tmp_path)
    assert episode.observations["observation"].tolist() == [[5], [6]]
    with pytest.raises(ConfigError, match=r"needs Recorder\.reset"):
        recorder.step([0.0], [2.0], 0.0, False, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation": {"arm": [1, np.nan]}}, "^observation/arm is not finite"),
        (
            {"observation": {"arm": [1, 2, 3]}},
            r"^observation/arm has shape \[3\] .* \[2\], as before",
        ),
        (
            {"observation": {"arm": [[1], [2, 3]]}},
            "^observation/arm is a list, not an array of numbers",
        ),
        (
            {"observation": {"hand": [1, 2]}},
            "^observation/arm is missing .* action, observation/arm",
        ),
        ({"observation": {"arm": [1, 2], "hand": 1}}, "^observation/hand was not there before"),
        ({"observation": None}, "^observation is a NoneType, not an array of numbers"),
        ({"action": ([0.5], {})}, "^action is missing"),
        ({"action": "left"}, "^action is a str, not an array of numbers"),
        ({"action": [np.inf]}, "^action is not finite"),
        ({"action": 0.5}, r"^action has shape \[\] .* expected \[1\]"),
        ({"reward": None}, "^reward is a NoneType, not an array of numbers"),
        ({"reward": np.nan}, "^reward is not finite"),
        ({"reward": [1.0]}, r"^reward has shape \[1\] .* expected a number"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_at_once_and_the_episode_goes_on(
    changes, message, tmp_path
):
    recorder = Recorder(tmp_path)
    recorder.reset({"arm": [0, 0]})
    step = {"action": [0.5], "observation": {"arm": [1, 1]}, "reward": 1}
    recorder.step(**step, terminated=False, truncated=False)
    with pytest.raises(ConfigError, match=message):
        recorder.step(**(step | changes), terminated=False, truncated=False)
    recorder.step(**step, terminated=False, truncated=True)
    (episode,) = read_demonstrations(tmp_path)
    assert episode.rewards.tolist() == [1, 1]
    assert episode.observations["observation/arm"].tolist() == [[0, 0], [1, 1], [1, 1]]


def test_the_first_step_may_be_refused_too(tmp_path):
    recorder = Recorder(tmp_path)
    with pytest.raises(ConfigError, match="^observation is not finite"):
        recorder.reset([np.nan])
    with pytest.raises(ConfigError, match=r"needs Recorder\.reset"):
        recorder.step([0.5], [1], 1.0, True, False)
    recorder.reset([0])
    with pytest.raises(ConfigError, match="^observation has shape"):
        recorder.step([0.5], [1, 2], 1.0, True, False)
    recorder.step([0.5, 0.5], [1], 1.0, True, False)  # the shape of an action was not known yet
    (episode,) = read_demonstrations(tmp_path)
    assert episode.actions["action"].tolist() == [[0.5, 0.5]]


def test_a_folder_without_demonstrations_and_other_files_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("my robot")
    with pytest.raises(ConfigError, match="no file in it"):
        read_demonstrations(tmp_path)
    with pytest.raises(ConfigError, match=r"notes\.txt: not a file of demonstrations"):
        read_demonstrations(tmp_path / "notes.txt")
    with pytest.raises(ConfigError, match="there are no such"):
        read_demonstrations(tmp_path / "missing")


def test_the_digest_depends_on_what_agents_learn_from_and_on_nothing_else():
    first, second = (episode_of(arrays_of(n), "terminated", "A-v0", str(n)) for n in (3, 4))
    renamed = episode_of(arrays_of(3), "terminated", "B-v0", "elsewhere")
    assert digest([first]) == digest([renamed])
    others = [
        [second], [first, second], [second, first], [episode_of(arrays_of(3), "truncated")],
        [episode_of(arrays_of(3, scale=2.0), "terminated")],
    ]  # fmt: skip
    assert len({digest([first]), *map(digest, others)}) == 6


def test_an_episode_that_cannot_be_written_is_kept_until_it_can(tmp_path):
    folder = tmp_path / "demonstrations"
    recorder = Recorder(folder)
    recorder.reset([1.0])
    recorder.step([0.0], [2.0], 0.5, False, False)
    folder.rmdir()
    with pytest.raises(OSError, match="No such file"):
        recorder.step([0.0], [3.0], 0.5, True, False)
    with pytest.raises(OSError, match="No such file"):
        recorder.save()
    with pytest.raises(
        ConfigError, match=r"has ended, and is not written yet: call Recorder\.save"
    ):
        recorder.step([0.0], [4.0], 0.5, True, False)
    folder.mkdir()
    assert recorder.save() == folder / "episode_000000.npz"
    (episode,) = read_demonstrations(folder)
    assert episode.observations["observation"].tolist() == [[1], [2], [3]]
    with pytest.raises(ConfigError, match="an episode that has ended and is not written"):
        recorder.save()
