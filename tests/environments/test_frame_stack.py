import numpy as np
import pytest
from replay_fakes import EpisodeStepEnv, all_items, serving
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.errors import ConfigError
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import step_codec
from tfagents_system.environments.frame_stack import FrameStack
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
        assert adder.is_confirmed(timeout_secs=5)
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
