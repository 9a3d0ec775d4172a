"""Exploration noise: a random vector per env step, optionally correlated in time."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

PERIOD = 1024  # steps of noise drawn at a time, and the length of the slowest wave


OU_DAMPING = 0.15  # from Lillicrap et al. 2015, arXiv:1509.02971, section 7


class Noise(Protocol):
    """A source of vectors [A] float32 with mean 0."""

    def restart(self) -> None:
        """Makes later noise independent of earlier noise, at the start of an episode."""

    def next(self) -> NDArray[np.float32]:
        """Returns the noise of the next step."""


class JointNoise:
    """Joins the vectors of several sources into one."""

    def __init__(self, parts: Sequence[Noise]):
        """`parts` are owned; their vectors are joined in order."""
        self._parts = parts

    def restart(self) -> None:
        """Restarts all sources."""
        for part in self._parts:
            part.restart()

    def next(self) -> NDArray[np.float32]:
        """Returns the noise of the next step."""
        return np.concatenate([part.next() for part in self._parts])


class OrnsteinUhlenbeckNoise:
    """x <- (1 - OU_DAMPING) x + e, e ~ N(0, 1), from x = 0 at an episode's start.

    Source: Lillicrap et al. 2015, Continuous control with deep reinforcement learning,
    arXiv:1509.02971, section 3, in steps of one.
    """

    def __init__(self, num_actions: int, rng: np.random.Generator):
        """`rng` is owned."""
        self._steps = ColoredNoise(num_actions, 0.0, rng)
        self._start = np.zeros(num_actions, np.float32)
        self._x = self._start

    def restart(self) -> None:
        """Restarts at 0."""
        self._x = self._start

    def next(self) -> NDArray[np.float32]:
        """Returns the noise of the next step."""
        self._x = np.float32(1 - OU_DAMPING) * self._x + self._steps.next()
        return self._x


class ColoredNoise:
    """Noise with a power spectrum of 1/f^beta: vectors [A] float32 of mean 0 and variance 1.

    Successive actions push in the same direction for a while, where white noise averages out, so
    that a body explores farther (Eberhard et al., "Pink Noise Is All You Need: Colored Noise
    Exploration in Deep Reinforcement Learning", ICLR 2023).
    """

    def __init__(self, num_actions: int, beta: float, rng: np.random.Generator):
        """A `beta` of 0 is white noise, 1 pink, 2 brown; `rng` is owned."""
        self._num_actions = num_actions
        self._rng = rng
        frequency = np.fft.rfftfreq(PERIOD)[1:]
        self._amplitude = None
        if beta:
            amplitude = frequency ** (-beta / 2)
            # Each wave except the fastest is in the spectrum twice.
            power = 2 * (amplitude[:-1] ** 2).sum() + amplitude[-1] ** 2
            self._amplitude = amplitude * PERIOD / np.sqrt(power)
        self._rows: Iterator[NDArray[np.float32]] = iter(())

    def restart(self) -> None:
        """Makes later noise independent of earlier noise, at the start of an episode."""
        if self._amplitude is not None:  # white noise always is independent
            self._rows = iter(())

    def next(self) -> NDArray[np.float32]:
        """Returns the noise of the next step."""
        row = next(self._rows, None)
        if row is None:
            # Many at once, because between slow steps the code leaves the caches.
            self._rows = iter(self._draw())
            row = next(self._rows)
        return row

    def _draw(self) -> NDArray[np.float32]:
        """Draws random waves of the given powers [PERIOD, A] (Timmer & Koenig 1995)."""
        if self._amplitude is None:
            return self._rng.standard_normal((PERIOD, self._num_actions), np.float32)
        shape = self._num_actions, PERIOD // 2
        real, imaginary = self._rng.standard_normal((2, *shape)) / np.sqrt(2)
        imaginary[:, -1] = 0.0  # the fastest wave has no phase
        real[:, -1] *= np.sqrt(2)
        spectrum = np.pad(self._amplitude * (real + 1j * imaginary), ((0, 0), (1, 0)))
        return np.fft.irfft(spectrum, PERIOD).T.astype(np.float32)
