"""Shows frames in a window, in a process of its own, since an environment may use pygame too.

Example: python -m tfagents_system.films.window Pendulum
Reports that it is ready, then reads frames: width and height, as two integers of 4 bytes, and the
pixels, 3 bytes each, row by row. Ends with its input, or when its window is closed (or Esc, or q).
"""

import contextlib
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.environments.headless import has_display

READY = b"ready\n"
ALTERNATIVE = "Without --view, the episodes are filmed, which needs no display."
_SIZE = struct.Struct("<II")
_LEAST_HEIGHT = 600  # about, in pixels: smaller frames are enlarged by a whole factor
_EVENTS_PERIOD_SECS = 0.02
_START_SECS, _END_SECS = 60.0, 5.0


class Window:
    """Shows frames in real time. Call `close` on every window, also if the user closed it."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic):
        """Starts the process; the window appears with the first frame.

        Raises:
          ConfigError: If there is no display.
        """
        if sys.platform.startswith("linux") and not has_display():
            raise ConfigError(
                "--view shows a window, and there is no display: neither DISPLAY nor "
                f"WAYLAND_DISPLAY is set. {ALTERNATIVE}"
            )
        self.is_closed = False
        self._clock, self._due = clock, -float("inf")
        self._messages = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, title],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            env=os.environ | {"PYGAME_HIDE_SUPPORT_PROMPT": "1"},
            start_new_session=True,  # Ctrl-C is for this program, which then closes the window
        )
        assert self._process.stdin and self._process.stdout, "pipes"
        self._frames, self._answers = self._process.stdin, self._process.stdout
        readable, _, _ = select.select([self._answers], [], [], _START_SECS)
        if not readable or self._answers.readline() != READY:
            self._process.kill()
            self._process.wait()
            self._messages.seek(0)
            messages = self._messages.read().decode(errors="replace").strip().splitlines()
            self.close()
            raise ConfigError(
                f"--view cannot open a window on {_display()}: "
                f"{messages[-1] if messages else f'no answer in {_START_SECS:g} s'}. {ALTERNATIVE}"
            )

    def show(self, frame: NDArray[np.uint8], frames_per_sec: Fraction) -> None:
        """Shows a frame [H, W, 3] uint8, after the frame before it was visible for its time.

        Does nothing once the user has closed the window; `is_closed` is then true.
        """
        if self.is_closed:
            return
        time.sleep(max(0.0, self._due - self._clock()))
        self._due = max(self._due, self._clock()) + float(1 / frames_per_sec)
        height, width, _ = frame.shape
        try:
            self._frames.write(_SIZE.pack(width, height))
            self._frames.write(np.ascontiguousarray(frame).data)
            self._frames.flush()
        except BrokenPipeError:
            self.is_closed = True

    def close(self) -> None:
        """Closes the window, if the user has not."""
        with contextlib.suppress(BrokenPipeError):
            self._frames.close()
        try:
            self._process.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._messages.close()

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _display() -> str:
    names = [name for name in ("WAYLAND_DISPLAY", "DISPLAY") if os.environ.get(name)]
    return " and ".join(f"{name}={os.environ[name]}" for name in names) or "this display"


def main(title: str, /) -> None:
    """Shows the frames on standard input.

    Args:
      title: Title of the window.
    """
    import pygame

    pygame.display.init()
    pygame.display.set_caption(title)
    os.write(sys.stdout.fileno(), READY)
    while not any(map(_asks_for_end, pygame.event.get())):
        if select.select([sys.stdin], [], [], _EVENTS_PERIOD_SECS)[0]:
            if (frame := _read_frame()) is None:
                return
            _draw(*frame)


def _asks_for_end(event: Any) -> bool:
    import pygame

    is_key = event.type == pygame.KEYDOWN and event.key in (pygame.K_ESCAPE, pygame.K_q)
    return is_key or event.type == pygame.QUIT


def _read_frame() -> tuple[tuple[int, int], bytes] | None:
    """Returns the size and the pixels of the next frame; None at the end of the input."""
    head = _read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    width, height = _SIZE.unpack(head)
    pixels = _read(3 * width * height)
    return ((width, height), pixels) if len(pixels) == 3 * width * height else None


def _read(count: int) -> bytes:
    """Reads `count` bytes, fewer at the end; never more, because `select` sees no buffer."""
    parts = []
    while count and (part := os.read(sys.stdin.fileno(), count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _draw(size: tuple[int, int], pixels: bytes) -> None:
    """Draws a frame as large as the window allows; the first frame opens the window."""
    import pygame

    width, height = size
    window = pygame.display.get_surface()
    if window is None:
        factor = max(1, _LEAST_HEIGHT // height)
        window = pygame.display.set_mode((factor * width, factor * height), pygame.RESIZABLE)
    scale = min(window.get_width() / width, window.get_height() / height)
    shown = max(1, round(scale * width)), max(1, round(scale * height))
    image = pygame.transform.smoothscale(pygame.image.frombuffer(pixels, size, "RGB"), shown)
    window.fill((0, 0, 0))
    window.blit(image, image.get_rect(center=window.get_rect().center))
    pygame.display.flip()


if __name__ == "__main__":
    run_tool(main, sys.argv)
