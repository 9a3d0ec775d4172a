"""Films and shows episodes; renders each frame once, when it is due."""

import math
import pathlib
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.state.disk import free_bytes, is_disk_full, shortage
from tfagents_system.environments import rendering
from tfagents_system.environments.global_generators import kept_generators
from tfagents_system.films.playback import Playback, innermost_of, playback_of
from tfagents_system.films.video import VideoError, VideoWriter, clear_unfinished
from tfagents_system.films.window import Window

_BAR_COLOR = np.array([64, 160, 255], np.uint8)
_LAST = int(ts.StepType.LAST)


def with_progress_bar(frame: NDArray[np.uint8], fraction: float) -> NDArray[np.uint8]:
    """Returns a copy of a frame [H, W, 3] uint8, of even sizes, with a bar along the bottom.

    An odd size grows by a repeated row or column, because H.264 stores colors for 2 x 2 pixels.

    Args:
      frame: Not changed.
      fraction: Share of the width that the bar fills, in [0, 1]; the rest is darkened.
    """
    height, width, _ = frame.shape
    result = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
    bar = result[-max(2, height // 80) :]
    filled = round(bar.shape[1] * fraction)
    bar[:, :filled] = _BAR_COLOR
    bar[:, filled:] //= 3
    return result


def render_unnoticed(environment: py_environment.PyEnvironment) -> NDArray[np.uint8]:
    """Renders a frame [H, W, 3]; random numbers drawn meanwhile do not change the episode."""
    own = getattr(innermost_of(environment), "np_random", None)
    with kept_generators(own if isinstance(own, np.random.Generator) else None):
        return rendering.draw(environment)


class Camera:
    """Films episodes until the first failure; also shows them in a window.

    For each episode call `begin`, `observe` after every env step, then `end` or `discard`. Random
    numbers that an environment draws while it renders do not change its episodes.
    """

    def __init__(
        self,
        horizon: int,
        folder: pathlib.Path | None,
        warn: Callable[[str], None],
        max_secs: float = math.inf,
        window: Window | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Renders nothing yet; removes unfinished films of programs that were killed.

        Args:
          horizon: Env steps for the whole width of the progress bar.
          folder: Folder of the films, made for the first one; None: no films.
          warn: Called with one line when filming fails; after that there are no films, and, if
            rendering failed, no window.
          max_secs: Time that rendering and encoding a film of `horizon` steps may take. If they
            take longer, fewer frames are rendered, and each is shown for longer.
          window: Also shows the frames; owned by the caller.
          clock: In seconds.
        """
        self._horizon = horizon
        self._folder = folder  # also None from the first failure on
        self._warn = warn
        self._max_secs, self._clock = max_secs, clock
        self._window = window
        self._playback: Playback | None = None
        self._writer: VideoWriter | None = None
        if folder is not None:
            clear_unfinished(folder)

    def begin(self, name: str, environment: py_environment.PyEnvironment) -> None:
        """Begins a film `<name>.mp4` of `environment.render("rgb_array")`."""
        self._name, self._environment = name, environment
        self._step, self._secs = 0, 0.0
        self._picture: NDArray[np.uint8] | None = None  # the newest rendered frame

    def observe(self, time_step: ts.TimeStep) -> None:
        """Films the state after an env step if a frame is due; after the last step it always is."""
        self._step += 1
        if self._folder is None and self._window is None:
            return
        begin = self._clock()
        try:
            self._playback = playback = self._playback or playback_of(self._environment)
            frame = self._render(time_step, playback.steps_per_frame)
        except Exception as error:  # any exception of the environment
            self._window = None
            self._fail(error)
            return
        if frame is None:
            return
        if self._window:
            self._window.show(frame, playback.frames_per_sec)
        if self._folder is not None:
            try:
                self._write(frame, self._folder, playback.frames_per_sec)
            except Exception as error:
                self._fail(error)
        self._secs += self._clock() - begin

    def end(self) -> pathlib.Path | None:
        """Completes the film; returns its path, or None if there is none."""
        if self._writer is None:
            return None
        try:
            self._writer.finish()
        except Exception as error:
            self._fail(error)
            return None
        self._writer = None
        return self._path

    def discard(self) -> None:
        """Discards the current film, if any."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with OnlyReports("film"):
                writer.discard()

    def _render(self, time_step: ts.TimeStep, steps_per_frame: int) -> NDArray[np.uint8] | None:
        """Renders a frame of even sizes; returns None if none is due after this step."""
        is_last = time_step.step_type == _LAST or self._step == self._horizon
        if not is_last and self._step % steps_per_frame:
            return None
        share = self._step / self._horizon
        if self._picture is None or self._secs <= self._max_secs * share:
            self._picture = render_unnoticed(self._environment)
        return with_progress_bar(self._picture, share)

    def _write(
        self, frame: NDArray[np.uint8], folder: pathlib.Path, frames_per_sec: Fraction
    ) -> None:
        height, width, _ = frame.shape
        if self._writer is None:
            self._size = (width, height)
            self._path = folder / f"{self._name}.mp4"
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = VideoWriter(self._path, width, height, frames_per_sec)
        if (width, height) != self._size:
            raise VideoError(f"the frame's size changed from {self._size} to {(width, height)}")
        self._writer.write(frame)

    def _fail(self, error: Exception) -> None:
        folder, self._folder = self._folder, None
        self.discard()
        if folder is not None and is_disk_full(error):
            reason = f"{shortage('film', 0, free_bytes(folder))} in {folder}"
        elif isinstance(error.__cause__ or error, NotImplementedError):
            reason = "the environment does not implement render('rgb_array')"
        elif isinstance(error, (VideoError, ConfigError)):
            reason = str(error)
        else:
            raised = getattr(error, "reason", f"{type(error).__name__}: {error}")
            reason = f"step {self._step} failed with {raised.splitlines()[0]}"
        self._warn(f"No video of {self._name} and later: {reason.rstrip('.')}.")
