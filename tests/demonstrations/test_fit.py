import numpy as np
import pytest
from tf_agents.specs import array_spec

from tfagents_system.demonstrations.episode_file import episode_of
from tfagents_system.demonstrations.fit import Specs, misfits, remarks

SPECS = Specs(
    {
        "arm": array_spec.BoundedArraySpec([2], np.float32, -5.0, 5.0),
        "camera": array_spec.BoundedArraySpec([12, 12, 6], np.uint8, 0, 255),
    },
    array_spec.BoundedArraySpec([1], np.float32, -1.0, 2.0),
    horizon=4,
    frame_stack=2,
)
FITTING = {
    "observation/arm": np.zeros([4, 2], np.float32),
    "observation/camera": np.zeros([4, 12, 12, 3], np.uint8),  # single frames
    "action": np.full([3, 1], 2.0, np.float32),
    "reward": np.zeros(3, np.float32),
}


def with_value(name, index, value):
    array = FITTING[name].copy()
    array[index] = value
    return {name: array}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, []),
        ({"observation/camera": np.zeros([4, 12, 12, 6], np.uint8)}, []),
        ({"action": np.full([3, 1], 2, np.int64)}, []),
        ({"observation/camera": np.zeros([4, 12, 12, 4], np.uint8)},
         ["observation/camera has shape [12, 12, 4], in the environment [12, 12, 6]"]),
        ({"observation/camera": np.zeros([4, 12, 12, 3], np.float32)},
         ["observation/camera has dtype float32, in the environment uint8"]),
        ({"observation/camera": np.full([4, 12, 12, 3], 256, np.uint16)},
         ["observation/camera has numbers that the environment's uint8 cannot hold"]),
        ({"observation/leg": np.zeros([4, 1])}, ["the environment has no observation/leg"]),
        ({"action": np.full([3, 1], "up")},
         ["action has dtype <U2, in the environment float32", "action has dtype <U2, which is"]),
        (with_value("observation/arm", (2, 1), np.nan),
         ["observation/arm has NaN or infinity, first at env step 2"]),
        (with_value("reward", 1, np.inf), ["reward has NaN or infinity, first at env step 2"]),
        (with_value("action", 1, -1.5),
         ["action has -1.5, first at env step 1, outside the bounds [-1, 2]"]),
        (with_value("action", 1, -1 - 2e-5), []),  # rounding: 1e-5 of a range of 3
    ],
)  # fmt: skip
def test_misfits_are_named(changes, expected):
    found = list(misfits(episode_of(FITTING | changes, "terminated"), SPECS))
    assert len(found) == len(expected)
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize(
    ("spec", "frame_stack", "shape", "fits"),
    [
        (array_spec.ArraySpec([84, 84, 3], np.uint8), 3, [84, 84], True),  # recorded single frames
        (array_spec.ArraySpec([84, 84, 3], np.uint8), 3, [84, 84, 1], True),
        (array_spec.ArraySpec([84, 84], np.uint8), 1, [84, 84, 1], True),  # of a stacking buffer
        (array_spec.ArraySpec([84, 84, 1], np.uint8), 1, [84, 84], True),
        (array_spec.ArraySpec([84, 84, 3], np.uint8), 1, [84, 84], False),
        (array_spec.ArraySpec([3], np.float32), 1, [3, 1], False),
    ],
)
def test_gray_frames_fit_with_and_without_an_axis_of_one_channel(spec, frame_stack, shape, fits):
    arrays = {"observation": np.zeros([3, *shape], spec.dtype), "action": FITTING["action"][:2],
              "reward": np.zeros(2, np.float32)}  # fmt: skip
    specs = SPECS._replace(observation=spec, frame_stack=frame_stack)
    assert (not list(misfits(episode_of(arrays, "terminated"), specs))) == fits


def test_a_missing_leaf_is_named():
    arrays = {name: array for name, array in FITTING.items() if name != "observation/arm"}
    assert list(misfits(episode_of(arrays, "terminated"), SPECS)) == ["observation/arm is missing"]


def test_what_is_odd_but_fits_is_a_remark():
    arrays = {name: np.concatenate([array, array]) for name, array in FITTING.items()}
    arrays = {name: array[: 7 if "observation" in name else 6] for name, array in arrays.items()}
    arrays["observation/arm"][3, 0] = 7
    episode = episode_of(arrays, "unfinished")
    assert list(misfits(episode, SPECS)) == []
    assert list(remarks(episode, SPECS)) == [
        "its last step is neither terminated nor truncated: it counts as truncated",
        "it has 6 env steps, more than the horizon, 4",
        "observation/arm has 7, first at env step 3, outside the bounds [-5, 5]",
    ]
    assert list(remarks(episode_of(FITTING, "truncated"), SPECS)) == []
