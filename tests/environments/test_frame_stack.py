import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import EpisodeStepEnv, all_items, serving
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.frames import newest_frames, single_frame_spec, stack_frames
from tfagents_system.data.images import channels_last, layout_of, size_of
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.environments.frame_stack import FrameStack
from tfagents_system.environments.remarks import remarks_on
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder

ACTION = array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)


class CameraEnv(py_environment.PyEnvironment):
    """A camera of one pixel that shows 10 episode + step, in a frame that is used again."""

    def __init__(self):
        super().__init__()
        self._frame = np.zeros([1, 1, 1], np.uint8)
        self._episode, self._index = -1, 0

    def observation_spec(self):
        return {
            "camera": array_spec.ArraySpec([1, 1, 1], np.uint8),
            "step": array_spec.ArraySpec([1], np.float32),
        }

    def action_spec(self):
        return ACTION

    def _observe(self):
        self._frame[:] = 10 * self._episode + self._index
        return {"camera": self._frame, "step": np.float32([self._index])}

    def _reset(self):
        self._episode, self._index = self._episode + 1, 0
        return ts.restart(self._observe())

    def _step(self, action):
        self._index += 1
        if self._index == 3:
            return ts.termination(self._observe(), 1.0)
        return ts.transition(self._observe(), 1.0)


def test_an_observation_holds_the_newest_frames_of_its_episode():
    environment = FrameStack(CameraEnv(), 3)
    assert environment.observation_spec()["camera"].shape == (1, 1, 3)
    assert environment.observation_spec()["step"].shape == (1,)
    observations = []
    for _ in range(2):
        observations.append(environment.reset().observation)
        observations += [environment.step(np.zeros(1)).observation for _ in range(3)]
    assert [o["camera"].ravel().tolist() for o in observations] == [
        [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3],
        [10, 10, 10], [10, 10, 11], [10, 11, 12], [11, 12, 13],
    ]  # fmt: skip
    assert [float(o["step"][0]) for o in observations] == [0, 1, 2, 3] * 2


PICTURES = {
    "HWC": np.arange(7 * 9 * 3).reshape(7, 9, 3),
    "CHW": np.arange(3 * 5 * 5).reshape(3, 5, 5),
    "HW": np.arange(24 * 20).reshape(24, 20),
}


class PictureEnv(CameraEnv):
    """Shows a picture, plus the step."""

    def __init__(self, picture, dtype):
        super().__init__()
        self._picture = picture.astype(dtype)

    def observation_spec(self):
        return array_spec.ArraySpec(self._picture.shape, self._picture.dtype, "observation")

    def _observe(self):
        return self._picture + np.array(self._index).astype(self._picture.dtype)


@pytest.mark.parametrize(
    ("layout", "dtype", "shape", "stacked_layout"),
    [
        ("HWC", np.uint8, (7, 9, 12), "HWC"), ("HWC", np.float32, (7, 9, 12), "HWC"),
        ("CHW", np.uint8, (12, 5, 5), "CHW"), ("CHW", np.float32, (12, 5, 5), "CHW"),
        ("HW", np.uint8, (24, 20, 4), "HWC"),
    ],
)  # fmt: skip
def test_frames_of_every_layout_are_stacked_and_found_again(layout, dtype, shape, stacked_layout):
    picture = PICTURES[layout].astype(dtype)
    environment = FrameStack(PictureEnv(picture, dtype), 4)
    spec = tensor_spec.from_spec(environment.observation_spec())
    assert (tuple(spec.shape), layout_of(spec)) == (shape, stacked_layout)
    stacks = [environment.reset().observation]
    stacks += [environment.step(np.zeros(1)).observation for _ in range(2)]
    expected = channels_last(picture[np.newaxis], layout)
    shown = channels_last(np.stack(stacks), stacked_layout)
    for step, ages in enumerate([(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2)]):
        wanted = np.concatenate([expected[0] + np.array(age, dtype) for age in ages], axis=-1)
        np.testing.assert_array_equal(shown[step], wanted)
    # The replay buffer has each frame once, the first one repeated.
    frame_spec = single_frame_spec(spec, 4)
    assert size_of(frame_spec) == expected.shape[1:]
    frames = [newest_frames(stack, frame_spec) for stack in [stacks[0]] * 3 + stacks]
    assert [frame.shape for frame in frames] == [tuple(frame_spec.shape)] * 6
    np.testing.assert_array_equal(newest_frames(np.stack(stacks), frame_spec), frames[3:])
    restacked = stack_frames(np.stack(frames)[np.newaxis], frame_spec, 4)
    np.testing.assert_array_equal(restacked, [stacks])
    in_tensorflow = stack_frames(tf.constant(np.stack(frames))[tf.newaxis], frame_spec, 4)
    np.testing.assert_array_equal(in_tensorflow, [stacks])


@pytest.mark.parametrize(
    ("layout", "stacked"), [("HWC", (7, 9, 6)), ("CHW", (6, 5, 5)), ("HW", (24, 20, 2))]
)
def test_stacked_frames_keep_the_bounds_of_each(layout, stacked):
    picture = PICTURES[layout].astype(np.float32)

    class Bounded(PictureEnv):
        def observation_spec(self):
            high = 1 + picture
            return array_spec.BoundedArraySpec(picture.shape, np.float32, 0, high, f"x.{layout}")

    environment = FrameStack(Bounded(picture, np.float32), 2)
    spec = environment.observation_spec()
    assert spec.minimum.shape == spec.maximum.shape == stacked
    assert not spec.minimum.any()
    np.testing.assert_array_equal(spec.maximum, environment.reset().observation + 1)
    text = str([str(remark) for remark in remarks_on(environment, takes_vectors=True)])
    assert "the bounds of its spec are beyond 10" in text


def test_an_environment_without_images_is_refused():
    with pytest.raises(ConfigError, match=r"frame_stack is 2, but no .* image.*float32 \[2\]"):
        FrameStack(EpisodeStepEnv(), 2)


@pytest.mark.parametrize("layout", [ItemLayout(1, frame_stack=3), ItemLayout(4, frame_stack=3)])
def test_learners_get_the_observations_that_workers_acted_on(tmp_path, layout):
    environment = FrameStack(CameraEnv(), 3)
    observation_spec = tensor_spec.from_spec(environment.observation_spec())
    codec = step_codec(observation_spec, tensor_spec.from_spec(ACTION), layout)
    acted = []

    def observe(time_step, action, next_time_step, state):
        pair = (time_step.observation, next_time_step.observation)
        acted.append([o["camera"].ravel().tolist() for o in pair])
        return adder.add(time_step, action, next_time_step)

    with serving(tmp_path / "reverb") as replay:
        adder = Adder(replay.client(), codec, layout)
        for _ in range(3):
            run_episode(environment, RandomPolicy(ACTION, 0), 10, observe)
            adder.end_episode()
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        items = all_items(replay.client(), codec, layout, key=lambda t: t.observation["camera"])
    learned = [
        [before.ravel().tolist(), after.ravel().tolist()]
        for item in items
        for before, after in zip(
            item.observation["camera"].reshape(-1, 3),
            item.next_observation["camera"].reshape(-1, 3),
            strict=True,
        )
    ]
    # 3 episodes of 3 + 3 rows are 18; three blocks reach to row 3 x 4 + 3 = 15, episode 2's first.
    expected = acted if not layout.is_block else acted[:6]
    assert sorted(learned) == sorted(expected)
