"""Demonstrations of other libraries, in files that the tests write by the formats' descriptions."""

import io
import json
import struct

import h5py
import numpy as np
import pytest
from PIL import Image

from tfagents_system.core.errors import ConfigError
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.fit import Specs, misfits
from tfagents_system.environments.unity.behaviors import Behavior, Sensor
from tfagents_system.environments.unity.specs import action_spec, observation_spec


def varint(number):
    encoded = b""
    while number > 127:
        encoded, number = encoded + bytes([number & 127 | 128]), number >> 7
    return encoded + bytes([number])


def field(number, value):
    """A field of a protobuf message: an int, a float, bytes, or a packed list of either."""
    if isinstance(value, list):
        is_float = any(isinstance(element, float) for element in value)
        encoded = [struct.pack("<f", v) if is_float else varint(v) for v in value]
        return field(number, b"".join(encoded))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(int(value))
    return varint(number << 3 | 2) + varint(len(value)) + value


def pair(observations, action, reward=0.0, done=False, is_cut=False, info=b""):
    """An AgentInfoActionPair; `action` is the encoded AgentAction."""
    info += field(7, float(reward)) + field(8, done) + field(9, is_cut)
    for numbers in observations:
        shown = field(1, [len(numbers)]) + field(4, field(1, [float(n) for n in numbers]))
        info += field(13, shown)
    return field(1, info) + field(2, action)


TWO_CONTINUOUS = field(9, field(1, 2))


def write_demo(path, pairs, spec=TWO_CONTINUOUS, api_version=1):
    meta = field(1, api_version) + field(2, b"mine") + field(3, len(pairs))
    content = (varint(len(meta)) + meta).ljust(33, b"\0")
    for message in (field(7, b"Crawler?team=0") + spec, *pairs):
        content += varint(len(message)) + message
    path.write_bytes(content)


def continuous(*numbers):
    return field(6, [float(number) for number in numbers])


def test_a_demo_of_unity_has_no_transition_from_an_episode_to_the_next(tmp_path):
    path = tmp_path / "crawl.demo"
    write_demo(path, [
        pair([[0, 1]], continuous(0.5, -0.5)),
        pair([[2, 3]], continuous(0.25, 1), reward=1),
        pair([[4, 5]], continuous(9, 9), reward=2, done=True),  # its action is not taken
        pair([[6, 7]], continuous(0, 0)),
        pair([[8, 9]], continuous(9, 9), reward=3, done=True, is_cut=True),
        pair([[1, 1]], continuous(1, 1)),
        pair([[2, 2]], continuous(1, 0), reward=4),  # the file ends
    ])  # fmt: skip
    first, second, third = read_demonstrations(path)
    assert first.observations["observation/observation"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert first.actions["action"].tolist() == [[0.5, -0.5], [0.25, 1]]
    assert first.rewards.tolist() == [1, 2]
    assert second.observations["observation/observation"].tolist() == [[6, 7], [8, 9]]
    assert [e.end for e in (first, second, third)] == ["terminated", "truncated", "unfinished"]
    assert third.rewards.tolist() == [4]
    assert first.environment == "Crawler?team=0"
    assert first.spec["action"] == "float32 [2]"


def test_a_demo_of_several_observations_and_mixed_actions_has_leaves(tmp_path):
    action = continuous(0.5) + field(7, [2, 0])
    write_demo(tmp_path / "a.demo", [
        pair([[1], [2, 3]], action), pair([[4], [5, 6]], action, done=True),
    ], field(9, field(1, 1) + field(2, 2) + field(3, [3, 2])))  # fmt: skip
    (episode,) = read_demonstrations(tmp_path)
    assert episode.observations["observation/observation_1"].tolist() == [[2, 3], [5, 6]]
    assert episode.observations["observation/action_mask"].tolist() == [[1] * 5] * 2  # not masked
    assert episode.actions["action/continuous"].tolist() == [[0.5]]
    assert episode.actions["action/discrete"].tolist() == [[2, 0]]
    assert episode.spec["action/discrete"] == "int32 [2]"


def test_a_demo_with_images_and_masks_fits_the_environment_of_its_build(tmp_path):
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    camera = field(1, [3, 4, 6]) + field(2, 1) + field(3, file.getvalue()) + field(6, [1, 2, 2])
    info = field(13, camera + field(8, b"camera")) + field(11, [0, 1, 0])  # 1 is forbidden
    steps = [pair([], field(7, [2]), done=done, info=info) for done in (False, True)]
    write_demo(tmp_path / "a.demo", steps, field(9, field(2, 1) + field(3, [3])))
    (episode,) = read_demonstrations(tmp_path)
    assert np.array_equal(episode.observations["observation/camera"], [picture, picture])
    assert episode.observations["observation/action_mask"].tolist() == [[1, 0, 1]] * 2
    build = Behavior("Grid", 0, (3,), (Sensor("camera", (4, 6, 3), "uint8", True),))
    specs = Specs(observation_spec(build), action_spec(build), horizon=10)
    assert list(misfits(episode, specs)) == []


@pytest.mark.parametrize(
    "spec, action, expected, spec_of_action",
    [
        (field(9, field(3, [3])), field(7, [2]), [[2]], "int32 [1]"),
        (field(3, [3]) + field(6, 0), field(1, [2.0]), [[2]], "int32 [1]"),  # API version 0
        (field(3, [2]) + field(6, 1), field(1, [2.0, 0.5]), [[2, 0.5]], "float32 [2]"),
    ],
)
def test_actions_of_each_version_are_read(spec, action, expected, spec_of_action, tmp_path):
    pairs = [pair([[1.0]], action), pair([[1.0]], action, done=True)]
    write_demo(tmp_path / "a.demo", pairs, spec, api_version=0)
    (episode,) = read_demonstrations(tmp_path / "a.demo")
    assert episode.actions["action"].tolist() == expected
    assert episode.spec["action"] == spec_of_action


def test_a_demo_that_cannot_be_read_is_refused_by_words(tmp_path):
    path = tmp_path / "bad.demo"
    pairs = [pair([[1.0]], continuous(1)), pair([[1.0]], continuous(1), done=True)]
    write_demo(path, pairs, api_version=2)
    with pytest.raises(ConfigError, match="API version 2"):
        read_demonstrations(path)
    write_demo(path, pairs)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ConfigError, match="damaged"):
        read_demonstrations(path)
    path.write_bytes(b"hello")
    with pytest.raises(ConfigError, match="damaged"):
        read_demonstrations(path)
    image = field(7, 0.0) + field(13, field(1, [8, 8, 3]) + field(2, 1) + field(3, b"png"))
    write_demo(path, [field(1, image) + field(2, continuous(1))] * 2)
    with pytest.raises(ConfigError, match="cannot be read .*cannot identify image"):
        read_demonstrations(path)


def test_a_data_set_of_minari(tmp_path):
    folder = tmp_path / "door-human-v2"
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data/main_data.hdf5", "w") as file:
        file.attrs["env_spec"] = json.dumps({"id": "AdroitHandDoor-v1"})
        for number, ends in ((0, "terminations"), (10, "truncations"), (2, None)):
            group = file.create_group(f"episode_{number}")
            group["observations/arm"] = np.full([4, 2], number, np.float64)
            group["actions"] = np.zeros([3, 1], np.float32)
            group["rewards"] = np.arange(3.0)
            for name in ("terminations", "truncations"):
                group[name] = np.array([False, False, name == ends])
    episodes = read_demonstrations(folder)
    numbers = [int(e.observations["observation/arm"][0, 0]) for e in episodes]
    assert numbers == [0, 2, 10]  # by number, not by name
    assert [e.end for e in episodes] == ["terminated", "unfinished", "truncated"]
    assert episodes[0].environment == "AdroitHandDoor-v1"
    assert episodes[0].spec["observation/arm"] == "float32 [2]"


def write_d4rl(path, **more):
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(8.0)[:, None]
        file["actions"] = 10 * np.arange(8.0)[:, None]
        file["rewards"] = np.arange(8.0)
        file["terminals"] = np.arange(8) == 2
        file["timeouts"] = np.arange(8) == 5
        file["infos/qpos"] = np.zeros([8, 3])
        for name, array in more.items():
            file[name] = array


def test_episodes_of_d4rl_end_at_terminals_and_timeouts(tmp_path):
    path = tmp_path / "maze2d.hdf5"
    write_d4rl(path)
    episodes = read_demonstrations(path)
    assert [e.observations["observation"][:, 0].tolist() for e in episodes] == [
        [0, 1, 2, 2],  # what follows a terminal step does not matter
        [3, 4, 5],  # what follows the step at the time limit is unknown
        [6, 7],
    ]
    assert [e.actions["action"][:, 0].tolist() for e in episodes] == [[0, 10, 20], [30, 40], [60]]
    assert [e.end for e in episodes] == ["terminated", "truncated", "unfinished"]
    write_d4rl(path, next_observations=np.arange(8.0)[:, None] + 0.5)
    episodes = read_demonstrations(path)
    assert [e.observations["observation"][:, 0].tolist() for e in episodes] == [
        [0, 1, 2, 2.5], [3, 4, 5, 5.5], [6, 7, 7.5],
    ]  # fmt: skip


def test_without_timeouts_episodes_of_d4rl_end_where_observations_jump(tmp_path):
    path = tmp_path / "old.hdf5"
    following = np.arange(1.0, 9.0)[:, None]
    following[5] = 5.5  # and step 6 begins at 6
    write_d4rl(path, next_observations=following)
    with h5py.File(path, "a") as file:
        del file["timeouts"]
    episodes = read_demonstrations(path)
    assert [e.observations["observation"][:, 0].tolist() for e in episodes] == [
        [0, 1, 2, 3], [3, 4, 5, 5.5], [6, 7, 8],
    ]  # fmt: skip
    assert [e.end for e in episodes] == ["terminated", "truncated", "unfinished"]
    for missing, message in (
        ("next_observations", "neither timeouts nor next_observations"),
        ("terminals", "not of Minari or D4RL"),
    ):
        with h5py.File(path, "a") as file:
            del file[missing]
        with pytest.raises(ConfigError, match=message):
            read_demonstrations(path)


def test_another_hdf5_file_is_refused_by_words(tmp_path):
    path = tmp_path / "weights.h5"
    with h5py.File(path, "w") as file:
        file["kernel"] = np.zeros(3)
    with pytest.raises(ConfigError, match="not of Minari or D4RL: it has kernel"):
        read_demonstrations(path)
    path.write_bytes(b"hello")
    with pytest.raises(ConfigError, match="damaged, or no HDF5"):
        read_demonstrations(path)
