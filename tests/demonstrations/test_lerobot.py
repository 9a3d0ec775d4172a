"""Data sets of LeRobot, in files that the tests write by the format's description."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from tfagents_system.commands.demonstrations import demonstrations
from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.files import check_demonstrations, read_demonstrations

V2 = "data/chunk-{number:03d}/episode_{number:06d}.parquet"


def feature(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape), "names": None}


FEATURES = {
    "observation.state": feature("float32", 2),
    "action": feature("float32", 1),
    "next.reward": feature("float32", 1),
    "next.done": feature("bool", 1),
    "episode_index": feature("int64", 1),
    "frame_index": feature("int64", 1),
    "timestamp": feature("float32", 1),
}


def rows_of(number, length, is_done, **more):
    """The frames of an episode: state [10 number + t, t], action number + t / 10, reward t."""
    frames = np.arange(length)
    return {
        "observation.state": [[10.0 * number + t, float(t)] for t in frames],
        "action": [number + t / 10 for t in frames],
        "next.reward": frames.astype(float).tolist(),
        "next.done": [is_done and t == length - 1 for t in frames],
        "episode_index": [number] * length,
        "frame_index": frames.tolist(),
        "timestamp": (frames / 30).tolist(),
    } | {name.replace("_", ".", 1): values for name, values in more.items()}


def write(folder, files, features=FEATURES, version="v2.1", types=()):
    """Writes columns by the path of each file."""
    (folder / "meta").mkdir(parents=True, exist_ok=True)
    info = {"codebase_version": version, "robot_type": "so100", "fps": 30, "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    known = {"observation.state": pa.list_(pa.float32()), "action": pa.float32(),
             "next.reward": pa.float32()} | dict(types)  # fmt: skip
    for path, columns in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        arrays = {
            name: pa.array(values, known.get(name))
            for name, values in columns.items()
            if name in features
        }
        parquet.write_table(pa.table(arrays), folder / path)


def test_episodes_of_version_2_have_a_file_each(tmp_path):
    write(tmp_path, {
        V2.format(number=0): rows_of(0, 3, is_done=True),
        V2.format(number=1): rows_of(1, 4, is_done=False),
    })  # fmt: skip
    first, second = read_demonstrations(tmp_path)
    # After a terminal step, nothing depends on the observation; else the last step is left out.
    assert first.observations["observation"].tolist() == [[0, 0], [1, 1], [2, 2], [2, 2]]
    np.testing.assert_allclose(first.actions["action"], [[0], [0.1], [0.2]])
    assert first.rewards.tolist() == [0, 1, 2]
    assert second.observations["observation"].tolist() == [[10, 0], [11, 1], [12, 2], [13, 3]]
    np.testing.assert_allclose(second.actions["action"], [[1], [1.1], [1.2]])
    assert [episode.end for episode in (first, second)] == ["terminated", "unfinished"]
    assert first.environment == "so100"
    assert first.spec == {
        "observation": "float32 [2]", "action": "float32 [1]", "reward": "float32 []"
    }  # fmt: skip
    check_demonstrations(tmp_path)


def test_episodes_of_version_3_share_files_and_may_go_on_in_the_next(tmp_path):
    first, second = rows_of(0, 3, is_done=True), rows_of(1, 4, is_done=True)
    one = {name: [*first[name], *second[name][:1]] for name in first}
    two = {name: second[name][1:] for name in second}
    fixed = pa.list_(pa.float32(), 2)
    write(tmp_path, {
        "data/chunk-000/file-000.parquet": one, "data/chunk-000/file-001.parquet": two
    }, version="v3.0", types={"observation.state": fixed})  # fmt: skip
    episodes = read_demonstrations(tmp_path)
    assert [episode.length for episode in episodes] == [3, 4]
    assert episodes[1].observations["observation"][:, 1].tolist() == [0, 1, 2, 3, 3]


@pytest.mark.parametrize(
    "name, value, end",
    [("next_success", False, "truncated"), ("next_success", True, "terminated"),
     ("next_truncated", True, "truncated")],
)  # fmt: skip
def test_other_flags_say_that_the_end_is_not_terminal(name, value, end, tmp_path):
    flags = {name: [False, False, value]}
    features = FEATURES | {name.replace("_", "."): feature("bool", 1)}
    write(tmp_path, {V2.format(number=0): rows_of(0, 3, True, **flags)}, features)
    (episode,) = read_demonstrations(tmp_path)
    assert (episode.end, episode.length) == (end, 3 if end == "terminated" else 2)


def test_several_observations_are_leaves_images_are_read_and_videos_are_left_out(tmp_path, capsys):
    pictures = [np.full((4, 6, 3), shade, np.uint8) for shade in (10, 20, 30)]
    encoded = []
    for picture in pictures:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "PNG")
        encoded.append({"bytes": file.getvalue(), "path": None})
    features = FEATURES | {
        "observation.images.wrist": feature("image", 4, 6, 3),
        "observation.images.top": feature("video", 480, 640, 3),
    }
    rows = rows_of(0, 3, True) | {"observation.images.wrist": encoded}
    write(tmp_path, {V2.format(number=0): rows}, features)
    (episode,) = read_demonstrations(tmp_path)
    assert episode.spec["observation/state"] == "float32 [2]"
    wrist = episode.observations["observation/images.wrist"]
    np.testing.assert_array_equal(wrist, [*pictures, pictures[-1]])
    assert demonstrations("show", tmp_path) == 0
    assert "  not read: observation.images.top\n" in capsys.readouterr().out


def test_without_rewards_the_data_set_is_refused_unless_a_reward_is_given(tmp_path):
    features = {name: f for name, f in FEATURES.items() if name != "next.reward"}
    write(tmp_path, {V2.format(number=0): rows_of(0, 3, True)}, features)
    with pytest.raises(ConfigError, match="no rewards .*convert .* --missing_reward 0"):
        read_demonstrations(tmp_path)
    (episode,) = read_demonstrations(tmp_path, missing_reward=-0.5)
    assert episode.rewards.tolist() == [-0.5] * 3
    output = tmp_path / "my_demonstrations"
    assert demonstrations("convert", tmp_path, output=output, missing_reward=0.0) == 0
    (episode,) = read_demonstrations(output)
    assert episode.rewards.tolist() == [0] * 3


def test_what_cannot_be_read_is_refused_by_words(tmp_path, monkeypatch):
    files = {V2.format(number=0): rows_of(0, 3, True)}
    write(tmp_path / "old", files, version="v1.6")
    with pytest.raises(ConfigError, match="version v1.6 of LeRobot's format; .* v2 and v3"):
        read_demonstrations(tmp_path / "old")
    write(tmp_path / "none", {})
    with pytest.raises(ConfigError, match=r"it has no data/\*/\*.parquet"):
        read_demonstrations(tmp_path / "none")
    only_videos = FEATURES | {"observation.state": feature("video", 4, 4, 3)}
    write(tmp_path / "videos", files, only_videos)
    with pytest.raises(ConfigError, match="no observation but in videos"):
        read_demonstrations(tmp_path / "videos")
    write(tmp_path / "more", files, FEATURES | {"action.gripper": feature("float32", 1)})
    with pytest.raises(ConfigError, match="damaged, or no data set of LeRobot"):
        read_demonstrations(tmp_path / "more")
    (tmp_path / "old/meta/info.json").write_text("{}")
    with pytest.raises(ConfigError, match="damaged, or no data set of LeRobot .*codebase_version"):
        read_demonstrations(tmp_path / "old")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="setup.sh --with lerobot"):
        read_demonstrations(tmp_path / "none")
