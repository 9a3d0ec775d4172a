"""A finger that feels only its own angle finds the right one of two equal bumps and pushes it."""

import math
from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLACK, BLUE, GRAY, RED, Canvas

_SUBSTEP = 0.001  # m that the finger moves between contact updates


class PushRightBump(gym.Env):
    """Pushes the right one of two bumps to the right, without seeing where they are.

    Observation [finger y in m, finger angle in radians]. Action [a, b] in [-1, 1]^2 moves the
    finger by 0.05 a m, to the right if a > 0, with a joint of stiffness 0.007 to 0.047 N m / rad,
    linear in b. Bumps are 40 mm wide and lie near two neighbours of the four places -0.24, -0.08,
    0.08 and 0.24 m; each of the three pairs is as likely, and each bump deviates uniformly by up to
    0.03 m. The finger begins between -0.03 and 0.03 m.

    Reward 1, and the end, if the right bump is more than 0.01 m right of its initial place and the
    finger is left of it; -1, and the end, if the left bump has moved by more than 0.001 m or the
    right one by as much to the left. Reward 0 otherwise; an episode also terminates where |y|
    reaches 0.38 m. The info of the last step has `success`.

    Source: Yang and Nguyen 2021, Recurrent Off-policy Baselines for Memory-based Continuous
    Control, arXiv:2110.12628. There a simulated robot arm moves the finger. Here contact is a model
    of one dimension without dynamics: a finger that meets a bump bends in proportion to how far it
    is past the near edge, up to pi / 3 at the middle; on the other half it keeps this angle, and
    behind the far edge it is straight. On the near half a bump slides as soon as stiffness times
    angle exceeds 0.027 pi / 3 N m, so it is passed over by a finger of half stiffness or less. The
    angle is negative if the finger bends to the left, which it does when it moves to the right.
    """

    observation_space = gym.spaces.Box(
        np.array([-0.4, -math.pi / 3], np.float32), np.array([0.4, math.pi / 3], np.float32)
    )
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    metadata = {"render_fps": 5}
    places = -0.24, -0.08, 0.08, 0.24  # m
    radius = 0.02  # m, of a bump
    max_angle = math.pi / 3
    sliding_torque = 0.027 * math.pi / 3  # N m

    def reset(self) -> NDArray[np.float32]:
        """Begins an episode."""
        pair = self.np_random.integers(3)
        noise = self.np_random.uniform(-0.03, 0.03, size=2)
        self.place([self.places[pair] + noise[0], self.places[pair + 1] + noise[1]],
                   self.np_random.uniform(-0.03, 0.03))  # fmt: skip
        return self._observe()

    def place(self, bumps: list[float], finger: float) -> None:
        """Sets the places of the left and right bumps, and a straight finger at `finger`."""
        self.bumps, self._first_bumps = list(bumps), tuple(bumps)
        self.finger, self.angle = float(finger), 0.0
        self._contact: tuple[int, int] | None = None  # bump; 1 if touched from the left, else -1

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Moves the finger."""
        distance = 0.05 * float(action[0])
        stiffness = 0.027 + 0.02 * float(action[1])
        num_substeps = max(1, math.ceil(abs(distance) / _SUBSTEP - 1e-9))
        for _ in range(num_substeps):
            self._move(distance / num_substeps, stiffness)
        left, right = np.subtract(self.bumps, self._first_bumps)
        is_success = right > 0.01 and self.finger < self.bumps[1]
        is_wrong = abs(left) > 0.001 or right < -0.001
        reward = -1.0 if is_wrong else float(is_success)
        done = bool(reward != 0 or abs(self.finger) >= 0.38)
        return self._observe(), reward, done, {"success": reward == 1}

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame; the bump to push is blue."""
        canvas = Canvas((-0.42, -0.05), (0.42, 0.2))
        canvas.line((-0.42, 0), (0.42, 0), 0, GRAY)
        for bump, color in zip(self.bumps, (RED, BLUE), strict=True):
            canvas.disc((bump, 0), self.radius, color)
        hand = (self.finger, 0.08)
        tip = (hand[0] + 0.07 * math.sin(self.angle), hand[1] - 0.07 * math.cos(self.angle))
        canvas.line(hand, tip, 0.006, BLACK)
        canvas.box((hand[0] - 0.02, hand[1]), (hand[0] + 0.02, 0.12), BLACK)
        return canvas.frame

    def _move(self, distance: float, stiffness: float) -> None:
        self.finger = min(max(self.finger + distance, -0.4), 0.4)
        self.angle = 0.0
        if self._contact is None:
            met = [i for i, bump in enumerate(self.bumps) if abs(self.finger - bump) < self.radius]
            if not met:
                return
            self._contact = met[0], 1 if distance > 0 else -1
        bump, side = self._contact
        depth = self._depth(bump, side)
        if depth > self.radius and side * distance < 0:  # turned back past the middle
            side, depth = -side, 2 * self.radius - depth
        if not 0 <= depth <= 2 * self.radius:
            self._contact = None
            return
        self._contact = bump, side
        # Depth at which the joint overcomes friction; beyond the radius it never does.
        slides_at = self.radius * self.sliding_torque / (stiffness * self.max_angle)
        if slides_at < depth <= self.radius:
            self.bumps[bump] += side * (depth - slides_at)
            depth = slides_at
        self.angle = -side * self.max_angle * min(1.0, depth / self.radius)

    def _depth(self, bump: int, side: int) -> float:
        """Returns how far the finger is past the edge where it met the bump, in m."""
        return side * (self.finger - self.bumps[bump]) + self.radius

    def _observe(self) -> NDArray[np.float32]:
        return np.array([self.finger, self.angle], np.float32)
