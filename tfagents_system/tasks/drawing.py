"""Draws small frames for tasks that have no renderer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEIGHT = 200  # pixels
BLACK, GRAY, GREEN, RED, BLUE = (
    np.array(color, np.uint8)
    for color in ((0, 0, 0), (170, 170, 170), (0, 150, 60), (200, 50, 40), (40, 90, 200))
)
Point = Sequence[float] | NDArray[np.floating[Any]]  # x to the right, y upwards


class Canvas:
    """Draws on a white rectangle of the plane, `frame` [HEIGHT, W, 3] uint8."""

    def __init__(self, low: Point, high: Point):
        """Takes the lower left and the upper right corner, in the task's units."""
        self._pixel = (high[1] - low[1]) / HEIGHT
        width = round((high[0] - low[0]) / self._pixel)
        self._x = low[0] + self._pixel * (np.arange(width) + 0.5)
        self._y = high[1] - self._pixel * (np.arange(HEIGHT)[:, np.newaxis] + 0.5)
        self.frame = np.full([HEIGHT, width, 3], 255, np.uint8)

    def disc(self, center: Point, radius: float, color: NDArray[np.uint8]) -> None:
        """Fills a disc."""
        self.line(center, center, 2 * radius, color)

    def line(self, start: Point, end: Point, width: float, color: NDArray[np.uint8]) -> None:
        """Draws a line with round ends, at least one pixel wide."""
        along = np.subtract(end, start)
        from_start = self._x - start[0], self._y - start[1]
        length_squared = max(float(along @ along), 1e-12)
        share = np.clip((from_start[0] * along[0] + from_start[1] * along[1]) / length_squared,
                        0, 1)  # fmt: skip
        distance = np.hypot(from_start[0] - share * along[0], from_start[1] - share * along[1])
        self.frame[distance <= max(width, self._pixel) / 2] = color

    def box(self, low: Point, high: Point, color: NDArray[np.uint8]) -> None:
        """Fills a rectangle."""
        inside_x = (low[0] <= self._x) & (self._x <= high[0])
        self.frame[inside_x & (low[1] <= self._y) & (self._y <= high[1])] = color
