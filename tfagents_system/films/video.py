"""Writes videos: frames stream into an H.264 encoder; a video appears when it is complete."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import tempfile
from fractions import Fraction
from typing import IO

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.state.disk import is_disk_full
from tfagents_system.core.state.files import temporary_name


class VideoError(Exception):
    """The encoder failed; the message is its last line."""


class VideoWriter:
    """Encodes frames of one size into an MP4 that any browser plays and seeks.

    Frames are encoded one at a time. Until `finish` replaces `path`, the file has a hidden name and
    is locked. Call `finish` or `discard` on every writer.
    """

    def __init__(self, path: pathlib.Path, width: int, height: int, frames_per_sec: Fraction):
        """Starts the encoder process; `width` and `height` are even numbers of pixels.

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
                start_new_session=True,  # Ctrl-C is for this program, which ends the encoder
            )
        except (RuntimeError, OSError) as error:
            self._unfinished.unlink(missing_ok=True)
            self._lock.close()
            raise VideoError(f"ffmpeg does not start: {error}") from error
        assert self._process.stdin, "a pipe"
        self._frames = self._process.stdin

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Appends a frame [height, width, 3] uint8; blocks while the encoder is behind.

        Raises:
          VideoError: If the encoder has ended, for example because the disk is full.
        """
        try:
            self._frames.write(np.ascontiguousarray(frame).data)
        except BrokenPipeError as error:
            raise self._error() from error

    def finish(self) -> None:
        """Waits for the encoder and renames the film to `path`.

        Raises:
          VideoError: If the encoder failed.
        """
        try:
            self._frames.close()
        except BrokenPipeError as error:
            raise self._error() from error
        if self._process.wait() != 0:
            raise self._error()
        os.replace(self._unfinished, self._path)
        self._lock.close()
        self._messages.close()

    def discard(self) -> None:
        """Ends the encoder and removes its file."""
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
        return next(filter(is_disk_full, errors), errors[-1])  # later errors are its consequences


def clear_unfinished(folder: pathlib.Path) -> None:
    """Removes unfinished films of killed programs from `folder`."""
    for path in folder.glob(".*.mp4.*"):
        with contextlib.suppress(OSError), path.open("rb+") as file:
            if _is_locked(file):
                path.unlink()


def _is_locked(file: IO[bytes]) -> bool:
    """Locks the file until it is closed; returns False if it is locked or cannot be."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
