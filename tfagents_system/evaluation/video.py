"""Films episodes: frames go straight into an H.264 encoder, and a film appears when complete."""

import contextlib
import fcntl
import math
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from typing import IO

import imageio_ffmpeg
import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.disk import free_bytes, is_disk_full, shortage
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.files import temporary_name
from tfagents_system.environments import adapter
from tfagents_system.environments.global_generators import kept_generators
from tfagents_system.evaluation.playback import Playback, innermost_of, playback_of

_BAR_COLOR = np.array([64, 160, 255], np.uint8)
_LAST = int(ts.StepType.LAST)


class VideoError(Exception):
    """The encoder failed; the message is its last word."""


class VideoWriter:
    """Encodes frames of one size into an MP4 that any browser plays and seeks.

    The frames pass through one at a time; `path` is replaced by `finish`, until then the file has
    a hidden name, and is locked. Every writer ends with `finish` or `discard`.
    """

    def __init__(self, path: pathlib.Path, width: int, height: int, frames_per_sec: Fraction):
        """Starts the encoder, a process; `width` and `height` are even numbers of pixels.

        Raises:
          VideoError: If there is no ffmpeg.
          OSError: If the folder of `path` cannot be written.
        """
        self._path = path
        self._unfinished = temporary_name(path)
        self._lock = self._unfinished.open("wb")
        _is_locked(self._lock)
        self._messages = tempfile.TemporaryFile()
        options = [
            "-y", "-v", "error",
            "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
            "-framerate", str(frames_per_sec), "-i", "-",
            "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart",
            "-f", "mp4",
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                [imageio_ffmpeg.get_ffmpeg_exe(), *options, str(self._unfinished)],
                stdin=subprocess.PIPE,
                stderr=self._messages,
                start_new_session=True,  # Ctrl-C is for this program, which then ends the encoder
            )
        except (RuntimeError, OSError) as error:
            self._unfinished.unlink(missing_ok=True)
            self._lock.close()
            raise VideoError(f"ffmpeg does not start: {error}") from error

    def write(self, frame: np.ndarray) -> None:
        """Appends a frame [height, width, 3] uint8; blocks while the encoder is behind.

        Raises:
          VideoError: If the encoder has ended, for example because the disk is full.
        """
        try:
            self._process.stdin.write(np.ascontiguousarray(frame))
        except BrokenPipeError as error:
            raise self._error() from error

    def finish(self) -> None:
        """Waits for the encoder and puts the film in its place.

        Raises:
          VideoError: If the encoder failed.
        """
        try:
            self._process.stdin.close()
        except BrokenPipeError as error:
            raise self._error() from error
        if self._process.wait() != 0:
            raise self._error()
        os.replace(self._unfinished, self._path)
        self._lock.close()
        self._messages.close()

    def discard(self) -> None:
        """Ends the encoder and removes what it has written."""
        self._process.kill()
        self._process.communicate()
        self._unfinished.unlink(missing_ok=True)
        self._lock.close()
        self._messages.close()

    def _error(self) -> VideoError:
        code = self._process.wait()
        self._messages.seek(0)
        messages = self._messages.read().decode(errors="replace").strip().splitlines()
        errors = [VideoError(message) for message in messages or [f"ffmpeg ended with {code}"]]
        return next(filter(is_disk_full, errors), errors[-1])  # its consequences are named later


def clear_unfinished(folder: pathlib.Path) -> None:
    """Removes the films in `folder` that nobody goes on with, because their program was killed."""
    for path in folder.glob(".*.mp4.*"):
        with contextlib.suppress(OSError), path.open("rb+") as file:
            if _is_locked(file):
                path.unlink()


def _is_locked(file: IO[bytes]) -> bool:
    """Locks the file until it is closed; returns False if another program has, or none can."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def with_progress_bar(frame: np.ndarray, fraction: float) -> np.ndarray:
    """Returns a copy of a frame [H, W, 3] uint8, of even sizes, with a bar along the bottom.

    A size that is odd grows by a repeated row or column: H.264 stores colors for 2 x 2 pixels.

    Args:
      frame: Left as it is.
      fraction: Of the width that the bar fills, in [0, 1]; the rest of it is darkened.
    """
    height, width, _ = frame.shape
    result = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
    bar = result[-max(2, height // 80) :]
    filled = round(bar.shape[1] * fraction)
    bar[:, :filled] = _BAR_COLOR
    bar[:, filled:] //= 3
    return result


class Camera:
    """Films episodes, until something fails for the first time.

    Each episode: `begin`, `observe` after every env step, then `end` or `discard`. What an
    environment draws from random generators while it renders is not missing from its episodes.
    """

    def __init__(
        self,
        horizon: int,
        folder: pathlib.Path | None,
        warn: Callable[[str], None],
        max_secs: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Renders nothing yet; removes unfinished films of programs that were killed.

        Args:
          horizon: Env steps that the whole width of the progress bar stands for.
          folder: Where the films go, which is made for the first; None films nothing.
          warn: Called with one line when filming fails; no frame is rendered after that.
          max_secs: Time that rendering and encoding a film may take: then it ends, whole until
            there, and `warn` is called.
          clock: In seconds.
        """
        self._horizon = horizon
        self._folder = folder
        self._warn = warn
        self._max_secs, self._clock = max_secs, clock
        self._is_on = folder is not None
        self._playback: Playback | None = None
        self._writer: VideoWriter | None = None
        if folder is not None:
            clear_unfinished(folder)

    def begin(self, name: str, environment: py_environment.PyEnvironment) -> None:
        """Makes the next frames of `environment.render("rgb_array")` a film `<name>.mp4`."""
        self._name, self._environment = name, environment
        self._step, self._secs = 0, 0.0

    def observe(self, time_step: ts.TimeStep) -> None:
        """Films the state after an env step, if its turn has come; that of the last always has."""
        self._step += 1
        if not self._is_on or self._secs > self._max_secs:
            return
        begin = self._clock()
        try:
            self._film(time_step)
        except Exception as error:  # the environment's own, whatever it is
            self._fail(error)
        self._secs += self._clock() - begin
        if self._is_on and self._secs > self._max_secs:
            self._warn(f"The video of {self._name} ends at step {self._step} of {self._horizon}: "
                       f"filming has taken {self._secs:.0f} s.")  # fmt: skip

    def end(self) -> pathlib.Path | None:
        """Completes the film; returns its path, or None if there is none."""
        if self._writer is None:
            return None
        try:
            self._writer.finish()
        except (VideoError, OSError) as error:
            self._fail(error)
            return None
        self._writer = None
        return self._path

    def discard(self) -> None:
        """Throws away the film that has begun, if any."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    @property
    def _path(self) -> pathlib.Path:
        return self._folder / f"{self._name}.mp4"

    def _film(self, time_step: ts.TimeStep) -> None:
        self._playback = self._playback or playback_of(self._environment)
        is_last = time_step.step_type == _LAST or self._step == self._horizon
        if not is_last and self._step % self._playback.steps_per_frame:
            return
        own = getattr(innermost_of(self._environment), "np_random", None)
        with kept_generators(own if isinstance(own, np.random.Generator) else None):
            frame = self._environment.render("rgb_array")
        frame = adapter.as_frame(frame, type(self._environment).__name__)
        frame = with_progress_bar(frame, self._step / self._horizon)
        height, width, _ = frame.shape
        if self._writer is None:
            self._size = (width, height)
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = VideoWriter(self._path, width, height, self._playback.frames_per_sec)
        if (width, height) != self._size:
            raise VideoError(f"the frame's size changed from {self._size} to {(width, height)}")
        self._writer.write(frame)

    def _fail(self, error: Exception) -> None:
        self._is_on = False
        self.discard()
        if is_disk_full(error):
            reason = f"{shortage('film', 0, free_bytes(self._folder))} in {self._folder}"
        elif isinstance(error, NotImplementedError):
            reason = "the environment does not implement render('rgb_array')"
        elif isinstance(error, (VideoError, ConfigError)):
            reason = str(error)
        else:
            lines = f"{type(error).__name__}: {error}".splitlines()
            reason = f"step {self._step} failed with {lines[0]}"
        self._warn(f"No video of {self._name} and later: {reason.rstrip('.')}.")
