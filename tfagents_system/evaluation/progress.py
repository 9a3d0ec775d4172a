"""Shows how far an evaluation is."""

import time
from collections.abc import Callable

from tfagents_system.core.meters import format_duration

BAR_LENGTH = 20


class EvaluationProgress:
    """Counts episodes and steps, and estimates the end from the time that they took so far."""

    def __init__(
        self, num_episodes: int, horizon: int, clock: Callable[[], float] = time.monotonic
    ):
        """Begins to measure time."""
        self._num_episodes, self._horizon = num_episodes, horizon
        self._clock, self._began_at = clock, clock()
        self._lengths: list[int] = []  # of the complete episodes
        self._step, self._return = 0, 0.0  # of the current one

    def step(self, reward: float) -> None:
        """Counts an env step."""
        self._step += 1
        self._return += reward

    def end_episode(self) -> None:
        """Counts the current episode."""
        self._lengths.append(self._step)
        self._step, self._return = 0, 0.0

    def line(self) -> str:
        """Returns bar, episodes done, the current one and the time left; needs a first step."""
        done, num_steps = len(self._lengths), sum(self._lengths) + self._step
        length = sum(self._lengths) / done if done else self._horizon  # expected
        steps_left = max(0.0, length - self._step) + (self._num_episodes - done - 1) * length
        share = num_steps / (num_steps + steps_left)
        secs_left = (self._clock() - self._began_at) / num_steps * steps_left
        bar = "#" * int(BAR_LENGTH * share)
        return (
            f"[{bar:.<{BAR_LENGTH}}] {done} of {self._num_episodes} episodes; step {self._step:,} "
            f"of {self._horizon:,}, return {self._return:,.4g}; {format_duration(secs_left)} left"
        )
