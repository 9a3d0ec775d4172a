"""Files .demo that are written are read as what they were made of."""

import numpy as np
import pytest

from tfagents_system.commands.demonstrations import demonstrations
from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.episode_file import episode_of, write_episode
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.unity_demo_writer import write_unity_demo

RNG = np.random.default_rng(0)


def episode(length, actions, end="terminated", **observations):
    """An episode with the rewards 1, 2, 3, ..."""
    seen = {f"observation/{name}": array for name, array in observations.items()}
    arrays = {**seen, **actions, "reward": np.arange(1, length + 1, dtype=np.float32)}
    return episode_of(arrays, end, "Crawler")


def assert_equal(read, written):
    assert (read.end, read.environment) == (written.end, written.environment)
    assert read.spec == written.spec
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array, err_msg=name)


def test_vectors_and_continuous_actions(tmp_path):
    written = [
        episode(
            length, {"action": RNG.uniform(-1, 1, [length, 2]).astype(np.float32)}, end,
            arm=RNG.normal(size=[length + 1, 3]).astype(np.float32),
            grid=RNG.normal(size=[length + 1, 2, 4]).astype(np.float32),
        )
        for length, end in ((3, "terminated"), (1, "truncated"), (4, "truncated"))
    ]  # fmt: skip
    write_unity_demo(tmp_path / "crawl.demo", written)
    read = read_demonstrations(tmp_path / "crawl.demo")
    for one, other in zip(read, written, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("num_channels", [1, 3, 4, 7])
def test_images_masks_and_mixed_actions(num_channels, tmp_path):
    mask = np.array([[1, 0, 1, 1, 1]] * 3, np.float32)
    written = episode(
        2,
        {
            "action/continuous": np.array([[0.5], [-1]], np.float32),
            "action/discrete": np.array([[2, 0], [0, 1]], np.int32),
        },
        camera=RNG.integers(0, 256, [3, 6, 8, num_channels]).astype(np.uint8),
        action_mask=mask,
    )
    write_unity_demo(tmp_path / "a.demo", [written], branches=(3, 2))
    (read,) = read_demonstrations(tmp_path / "a.demo")
    assert_equal(read, written)


def test_an_end_that_is_not_known_counts_as_interrupted_and_a_single_branch_is_its_mask(tmp_path):
    written = episode(
        1, {"action": np.array([1], np.int64)}, "unfinished",
        state=np.zeros([2, 1], np.float32), action_mask=np.ones([2, 4], np.float32),
    )  # fmt: skip
    write_unity_demo(tmp_path / "a.demo", [written, written])
    episodes = list(read_demonstrations(tmp_path / "a.demo"))
    assert len(episodes) == 2
    for read in episodes:
        assert (read.end, read.length) == ("truncated", 1)
        assert read.actions["action"].tolist() == [[1]]
        assert read.observations["observation/action_mask"].tolist() == [[1] * 4] * 2


STATE = {"state": np.zeros([2, 1], np.float32)}
PUSH = {"action": np.zeros([1, 1], np.float32)}
CHOOSE = {"action": np.array([[1, 2]], np.int32)}


@pytest.mark.parametrize(
    "written, branches, message",
    [
        ([episode(1, CHOOSE, **STATE)], (), r"2 branches of integers, and --branches has \[\]"),
        ([episode(1, CHOOSE, **STATE)], (2,), r"2 branches of integers, and --branches has \[2\]"),
        ([episode(1, CHOOSE, **STATE)], (2, 2), r"an action is \[1, 2\], beyond --branches"),
        (
            [episode(1, CHOOSE, **STATE, action_mask=np.ones([2, 6]))], (2, 3),
            "5 choices, but action_mask has 6",
        ),
        ([episode(1, PUSH, **STATE)], (2,), "0 branches of integers"),
        (
            [episode(1, {"action": np.array([-1])}, **STATE)], (),
            "Unity has no such actions: .*int64",
        ),
        (
            [episode(1, {"action/arm": np.zeros([1, 2]), "action/leg": np.zeros([1, 2])}, **STATE)],
            (), "Unity has no such actions: .*action/leg",
        ),
        (
            [episode(1, PUSH, **STATE), episode(1, PUSH, other=STATE["state"])], (),
            "a .demo file is of one behavior",
        ),
    ],
)  # fmt: skip
def test_what_unity_has_no_place_for_is_refused_by_words(written, branches, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        write_unity_demo(tmp_path / "a.demo", written, branches)
    assert not (tmp_path / "a.demo").exists()


def test_a_command_converts_folders_and_files(tmp_path, capsys):
    demos = tmp_path / "demos"
    demos.mkdir()
    written = episode(1, PUSH, observation=STATE["state"])
    for index in range(2):
        write_episode(demos / f"{index}.npz", written)
    file = tmp_path / "new/a_name_that_is_too_long_for_the_head.demo"
    assert demonstrations("convert", demos, output=file) == 0
    assert capsys.readouterr().out == f"{file}: 2 episodes, 2 env steps, of Crawler\n"
    back = tmp_path / "back"
    assert demonstrations("convert", file, output=back) == 0
    assert sorted(path.name for path in back.iterdir()) == [
        "episode_000000.npz", "episode_000001.npz"
    ]  # fmt: skip
    for read in read_demonstrations(back):
        assert_equal(read, written)


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "Where to. Give --output"),
        ({"output": "a.hdf5"}, "no file of this format is written"),
        ({"output": "demos"}, "already exists. Choose another --output"),
        ({"output": "more", "branches": (2,)}, "--branches is for a .demo file"),
        ({"output": "more", "env": "Pendulum-v1"}, "--env, .* are for check"),
    ],
)
def test_wrong_conversions_are_refused(given, message, tmp_path):
    (tmp_path / "demos").mkdir()
    write_episode(tmp_path / "demos/one.npz", episode(1, PUSH, **STATE))
    if "output" in given:
        given = given | {"output": tmp_path / given["output"]}
    with pytest.raises(ConfigError, match=message):
        demonstrations("convert", tmp_path / "demos", **given)
    with pytest.raises(ConfigError, match="are for convert"):
        demonstrations("show", tmp_path / "demos", output=tmp_path / "a.demo")
