"""A pole on a cart that is pushed by a continuous force."""

import math
from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray

from tfagents_system.tasks.drawing import BLACK, BLUE, GRAY, RED, Canvas


class ContinuousCartPole(gym.Env):
    """Balances a pole by a force of up to 30 N, three times that of gym's CartPole.

    Observation [x, x', theta, theta'] in m and radians, per s; theta is 0 upright. Action [a] in
    [-1, 1], a force of 30 a N. Reward 1 each step. The episode terminates where |x| > 2.4 m or
    |theta| > 12 degrees. All four begin uniformly within 0.05 of 0.

    Source: Barto, Sutton and Anderson 1983, Neuronlike adaptive elements that can solve difficult
    learning control problems; equations without friction, Euler steps of 0.02 s.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    dt = 0.02  # s
    gravity = 9.8  # m / s^2
    cart_mass, pole_mass = 1.0, 0.1  # kg
    half_length = 0.5  # m, of the pole
    max_force = 30.0  # N
    max_position = 2.4  # m
    max_angle = math.radians(12)

    def reset(self) -> NDArray[np.float64]:
        """Begins an episode."""
        self.state = self.np_random.uniform(-0.05, 0.05, size=4)
        return self.state

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, dict[str, Any]]:
        """Pushes for 0.02 s."""
        x, velocity, angle, spin = self.state
        mass = self.cart_mass + self.pole_mass
        moment = self.pole_mass * self.half_length  # kg m
        sine, cosine = math.sin(angle), math.cos(angle)
        push = (self.max_force * float(action[0]) + moment * spin**2 * sine) / mass
        inertia = self.half_length * (4 / 3 - self.pole_mass * cosine**2 / mass)
        spin_change = (self.gravity * sine - cosine * push) / inertia
        acceleration = push - moment * spin_change * cosine / mass
        rates = np.array([velocity, acceleration, spin, spin_change])
        self.state = self.state + self.dt * rates
        has_failed = abs(self.state[0]) > self.max_position or abs(self.state[2]) > self.max_angle
        return self.state, 1.0, bool(has_failed), {}

    def render(self, mode: str = "rgb_array") -> NDArray[np.uint8]:
        """Returns a frame."""
        x, _, angle, _ = self.state
        canvas = Canvas((-2.6, -0.5), (2.6, 1.3))
        canvas.line((-2.6, 0), (2.6, 0), 0, GRAY)
        canvas.box((x - 0.2, -0.12), (x + 0.2, 0.12), BLUE)
        length = 2 * self.half_length
        canvas.line((x, 0), (x + length * math.sin(angle), length * math.cos(angle)), 0.06, RED)
        canvas.disc((x, 0), 0.04, BLACK)
        return canvas.frame
