"""Shows frames in a window, in a separate process, since an environment may use pygame too.

Example: python -m tfagents_system.films.window Pendulum
Reports that it is ready, then reads frames: width and height, as two integers of 4 bytes, and the
pixels, 3 bytes each, row by row. Ends with its input, or when its window is closed (or Esc, or q).
With --inputs, it writes a line for each key that is pressed or released, such as "left 1", and for
a gamepad's buttons and axes; then q is a key.
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
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import OneOf, run_tool
from tfagents_system.environments.headless import has_display
from tfagents_system.films.inputs import changes_of

READY, NO_GAMEPAD = b"ready\n", b"no gamepad\n"
KEYBOARD, GAMEPAD = INPUTS = ("keyboard", "gamepad")
VIEW = "--view"
_ALTERNATIVES = {VIEW: "Without --view, the episodes are filmed, which needs no display."}
_SIZE = struct.Struct("<II")
_LEAST_HEIGHT = 600  # in pixels, approximately: smaller frames are enlarged by an integer factor
_EVENTS_PERIOD_SECS = 0.02
_START_SECS, _END_SECS = 60.0, 5.0


class Window:
    """Shows frames in real time. Call `close` on every window, also if the user closed it."""

    def __init__(
        self,
        title: str,
        clock: Callable[[], float] = time.monotonic,
        inputs: str | None = None,
    ):
        """Starts the process; the window appears with the first frame.

        Args:
          title: Title of the window.
          clock: In seconds.
          inputs: What `held` shows: KEYBOARD, GAMEPAD (and the keyboard), or nothing.

        Raises:
          ConfigError: If there is no display, or no gamepad.
        """
        flag = f"--{inputs}" if inputs else VIEW
        alternative = _ALTERNATIVES.get(flag, "A person needs one to see the environment.")
        if sys.platform.startswith("linux") and not has_display():
            raise ConfigError(
                f"{flag} shows a window, and there is no display: neither DISPLAY nor "
                f"WAYLAND_DISPLAY is set. {alternative}"
            )
        self.is_closed = False
        self.held: dict[str, float] = {}  # the inputs that are not 0, in the order of their change
        self.pressed: set[str] = set()  # inputs pressed since this was last cleared
        self._unread = b""
        self._clock, self._due = clock, -float("inf")
        self._messages = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, title, *([f"--inputs={inputs}"] if inputs else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            env=os.environ | {"PYGAME_HIDE_SUPPORT_PROMPT": "1"},
            start_new_session=True,  # Ctrl-C is for this program, which closes the window
        )
        assert self._process.stdin and self._process.stdout, "pipes"
        self._frames, self._answers = self._process.stdin, self._process.stdout
        readable, _, _ = select.select([self._answers], [], [], _START_SECS)
        answer = self._answers.readline() if readable else b""
        if answer == NO_GAMEPAD:
            self.close()
            raise ConfigError(
                "--gamepad: no gamepad is connected that this user may read (/dev/input). Connect "
                "one, or use --keyboard."
            )
        if answer != READY:
            self._process.kill()
            self._process.wait()
            self._messages.seek(0)
            messages = self._messages.read().decode(errors="replace").strip().splitlines()
            self.close()
            raise ConfigError(
                f"{flag} cannot open a window on {_display()}: "
                f"{messages[-1] if messages else f'no answer in {_START_SECS:g} s'}. {alternative}"
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

    def read_inputs(self, timeout_secs: float = 0.0) -> None:
        """Updates `held`, `pressed` and `is_closed`; waits for a change if there is none yet."""
        while not self.is_closed and select.select([self._answers], [], [], timeout_secs)[0]:
            content = os.read(self._answers.fileno(), 1 << 16)
            self.is_closed = not content
            *lines, self._unread = (self._unread + content).split(b"\n")
            for line in lines:
                name, _, value = line.decode().partition(" ")
                before = self.held.pop(name, 0.0)
                if number := float(value):
                    self.held[name] = number
                    self.pressed |= set() if before else {name}
            timeout_secs = 0.0

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


def main(title: str, /, inputs: Annotated[str | None, OneOf(INPUTS)] = None) -> None:
    """Shows the frames on standard input.

    Args:
      title: Title of the window.
      inputs: What to write the inputs of.
    """
    import pygame

    pygame.display.init()
    pygame.display.set_caption(title)
    gamepads = _gamepads() if inputs == GAMEPAD else []
    if inputs == GAMEPAD and not gamepads:
        os.write(sys.stdout.fileno(), NO_GAMEPAD)
        return
    os.write(sys.stdout.fileno(), READY)
    while True:
        for event in pygame.event.get():
            if _asks_for_end(event, inputs):
                return
            for name, value in changes_of(event) if inputs else ():
                os.write(sys.stdout.fileno(), f"{name} {value:g}\n".encode())
        if select.select([sys.stdin], [], [], _EVENTS_PERIOD_SECS)[0]:
            if (frame := _read_frame()) is None:
                return
            _draw(*frame)


def _gamepads() -> list[Any]:
    """Returns the connected gamepads; their events arrive only while these objects exist."""
    import pygame

    pygame.joystick.init()
    return [pygame.joystick.Joystick(index) for index in range(pygame.joystick.get_count())]


def _asks_for_end(event: Any, inputs: str | None) -> bool:
    import pygame

    ends = (pygame.K_ESCAPE,) if inputs else (pygame.K_ESCAPE, pygame.K_q)
    is_key = event.type == pygame.KEYDOWN and event.key in ends
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
