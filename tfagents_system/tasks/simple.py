"""Small tasks with actions and observations of every kind, which any agent learns in minutes.

Source: the reference environments of the tests of Unity ML-Agents (Juliani et al. 2018,
arXiv:1809.02627), whose rules these follow.
"""

from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLACK, GREEN, RED, Canvas

ENTITIES = (10, 5)  # most in a list, and the numbers of each
REMEMBERED_STEPS = 2  # how long the goal is seen, if it must be remembered


class Simple(gym.Env):
    """Points on axes from -1 to 1, which must all move to the side of the goal, -1 or 1.

    Observation [goal], or images [side, side, 3] or lists of 1 to 10 entities that are filled with
    it; rows of zeros follow the entities. A continuous action in [-1, 1] moves a point by `stride`
    times it; a discrete one of 0 or 1 by minus or plus `stride`. The episode ends when each point
    has reached an end of its axis: the reward is then `success` times the mean over axes of 1 at
    the goal's end and -1 at the other; before, it is minus `penalty` per env step. The info of the
    last step has `success`, whether all points are at the goal's end.
    """

    metadata = {"render_fps": 5}

    def __init__(
        self,
        num_continuous: int = 1,
        num_discrete: int = 0,
        stride: float = 0.2,
        num_cameras: int = 0,
        side: int = 20,
        num_lists: int = 0,
        has_vector: bool = False,
        must_remember: bool = False,
        success: float = 1.06,
        penalty: float = 0.01,
    ):
        """Makes the spaces.

        Args:
          num_continuous: Axes that are moved by real numbers.
          num_discrete: Axes that are moved by choices.
          stride: Largest move.
          num_cameras: Images in the observation, in place of the vector; 0 for the vector.
          side: Side of the images, in pixels.
          num_lists: Lists of entities in the observation, in place of the vector.
          has_vector: Whether the vector is there beside the lists, as `goal`.
          must_remember: Whether the goal is seen only in the first three observations.
          success: Reward when all points are at the goal's end.
          penalty: Subtracted for each env step before the last.
        """
        spaces: dict[str, gym.Space] = {}
        if num_continuous:
            spaces["continuous"] = gym.spaces.Box(-1.0, 1.0, (num_continuous,), np.float32)
        if num_discrete == 1:
            spaces["discrete"] = gym.spaces.Discrete(2)
        elif num_discrete:
            spaces["discrete"] = gym.spaces.MultiDiscrete([2] * num_discrete)
        self._is_nested = len(spaces) > 1
        (*_, first) = reversed(spaces.values())
        self.action_space = gym.spaces.Dict(spaces) if self._is_nested else first
        leaves: dict[str, tuple[int, ...]] = {
            f"camera_{index}": (side, side, 3) for index in range(num_cameras)
        }
        leaves |= {f"list_{index}": ENTITIES for index in range(num_lists)}
        leaves |= {"goal": (1,)} if has_vector or not leaves else {}
        seen = {
            name: gym.spaces.Box(-1.0, 1.0, shape, np.float32) for name, shape in leaves.items()
        }
        (*_, last) = seen.values()
        self.observation_space = gym.spaces.Dict(seen) if len(seen) > 1 else last
        self._num_continuous, self._num_axes = num_continuous, num_continuous + num_discrete
        self._stride, self._must_remember = stride, must_remember
        self._success, self._penalty = success, penalty

    def reset(self) -> Any:
        """Begins an episode."""
        self.goal = int(self.np_random.choice((-1, 1)))
        self.positions = np.zeros(self._num_axes)
        self._num_moves = 0
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Moves all points."""
        parts = action.values() if self._is_nested else [action]
        moves = np.concatenate([np.ravel(part) for part in parts]).astype(np.float64)
        moves[self._num_continuous :] = 2 * moves[self._num_continuous :] - 1
        self.positions = np.clip(self.positions + self._stride * moves, -1, 1)
        self._num_moves += 1
        is_over = bool((np.abs(self.positions) >= 1).all())
        is_right = is_over and bool((self.positions * self.goal > 0).all())
        share = float(np.mean(self.positions * self.goal))
        reward = self._success * share if is_over else -self._penalty
        return self._observe(), reward, is_over, {"success": is_right}

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame: one axis above the other, each with its point, and the goal in green."""
        canvas = Canvas((-1.3, -0.3), (1.3, 0.3 * self._num_axes))
        for axis, position in enumerate(self.positions):
            height = 0.3 * axis
            canvas.line((-1, height), (1, height), 0.01, BLACK)
            canvas.disc((self.goal, height), 0.05, GREEN)
            canvas.disc((position, height), 0.07, RED)
        return canvas.frame

    def _observe(self) -> Any:
        is_hidden = self._must_remember and self._num_moves > REMEMBERED_STEPS
        value = 0.0 if is_hidden else float(self.goal)
        if isinstance(self.observation_space, gym.spaces.Dict):
            spaces = self.observation_space.spaces
            return {name: self._filled(space.shape, value) for name, space in spaces.items()}
        return self._filled(self.observation_space.shape, value)

    def _filled(self, shape: tuple[int, ...], value: float) -> NDArray[np.float32]:
        array = np.full(shape, value, np.float32)
        if shape == ENTITIES:
            array[self.np_random.integers(1, len(array) + 1) :] = 0
        return array


def _on_images(encoder: str, num_cameras: int) -> dict[str, Any]:
    """Returns the arguments of a task for an encoder, with two choices and two moves."""
    side = 5 if encoder == "match3" else 36
    return {"num_continuous": 0, "num_discrete": 1, "stride": 0.5, "num_cameras": num_cameras,
            "side": side}  # fmt: skip


TASKS: dict[str, dict[str, Any]] = {
    "2019 continuous": {"stride": 0.1, "success": 1.011, "penalty": 0.001},
    "2019 discrete": {
        "num_continuous": 0,
        "num_discrete": 1,
        "stride": 0.1,
        "success": 1.011,
        "penalty": 0.001,
    },
    "continuous": {},
    "discrete": {"num_continuous": 0, "num_discrete": 1},
    "continuous 2": {"num_continuous": 2, "stride": 0.8},
    "discrete 2": {"num_continuous": 0, "num_discrete": 2, "stride": 0.8},
    "hybrid 1 1": {"num_continuous": 1, "num_discrete": 1, "stride": 0.8},
    "hybrid 2 2": {"num_continuous": 2, "num_discrete": 2, "stride": 0.8},
    "hybrid 1 2": {"num_continuous": 1, "num_discrete": 2, "stride": 0.8},
    "hybrid 2 1": {"num_continuous": 2, "num_discrete": 1, "stride": 0.8},
    "image": {"num_cameras": 1},
    "images": {"num_cameras": 2},
    "discrete image": {"num_continuous": 0, "num_discrete": 1, "num_cameras": 1},
    "hybrid image": {"num_discrete": 1, "num_cameras": 1, "stride": 0.8},
    "hybrid images": {"num_discrete": 1, "num_cameras": 2, "stride": 0.8},
    "nature_cnn image": _on_images("nature_cnn", 1),
    "nature_cnn images": _on_images("nature_cnn", 2),
    "impala image": _on_images("impala", 1),
    "impala images": _on_images("impala", 2),
    "match3 image": _on_images("match3", 1),
    "match3 images": _on_images("match3", 2),
    "list": {"num_lists": 1},
    "lists": {"num_lists": 2},
    "goal": {},
    "goal and list": {"num_lists": 1, "has_vector": True},
    "memory": {"must_remember": True, "stride": 0.5},
    "discrete memory": {"num_continuous": 0, "num_discrete": 1, "must_remember": True},
    "hybrid memory": {"num_discrete": 1, "must_remember": True, "stride": 0.5},
}
"""Arguments of Simple, by the name of the task."""
