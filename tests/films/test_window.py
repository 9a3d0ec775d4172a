import io
import time
from fractions import Fraction

import numpy as np
import pytest
from fakes import CountingEnv
from virtual_display import VirtualDisplay, install_xvfb

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.waiting import wait_until
from tfagents_system.evaluation.evaluator import run_episodes
from tfagents_system.films.window import Window
from tfagents_system.terminal.lines import Terminal

RED, GREEN = (250, 0, 0), (0, 250, 0)
FAST = Fraction(1000)


@pytest.fixture
def display(tmp_path, monkeypatch):
    install_xvfb()
    display = VirtualDisplay(tmp_path)
    monkeypatch.setenv("DISPLAY", display.name)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    yield display
    display.close()


def frame_of(color, height=100, width=200):
    return np.full((height, width, 3), color, np.uint8)


def num_pixels(display, color):
    return int((display.screen() == color).all(axis=-1).sum())


def await_pixels(display, color, count):
    wait_until(lambda: num_pixels(display, color) == count, 60, what=f"{count} pixels of {color}")


class FilmedEnv(CountingEnv):
    dt = 1 / 50

    def render(self, mode="rgb_array"):
        return frame_of(RED)


class ZeroPolicy:
    def initial_state(self):
        return ()

    def action(self, time_step, state):
        return np.zeros(1, np.float32), state


def test_frames_are_shown_and_small_ones_enlarged(display):
    with Window("arm") as window:
        window.show(frame_of(RED, 200, 200), FAST)
        await_pixels(display, RED, (3 * 200) ** 2)  # 600 / 200
        window.show(frame_of(GREEN, 100, 300), FAST)  # 600 wide: 2 x 300
        await_pixels(display, GREEN, 600 * 200)
        assert num_pixels(display, RED) == 0
        assert not window.is_closed
    await_pixels(display, GREEN, 0)


def test_frames_are_shown_at_their_rate(display):
    with Window("arm") as window:
        begin = time.monotonic()
        for _ in range(11):
            window.show(frame_of(RED), Fraction(10))
        assert time.monotonic() - begin >= 10 / 10


def test_an_evaluation_ends_with_its_window_and_keeps_the_complete_episodes(display):
    output = io.StringIO()
    num_closed = []
    with Window("arm") as window:

        def should_stop():  # after the first episode of 4 steps
            is_after = output.getvalue().count("\n") >= 2
            if is_after and not num_closed and num_pixels(display, RED):
                num_closed.append(display.close_windows())
            return False

        results = run_episodes(
            FilmedEnv(terminates_at=4), ZeroPolicy(), 10_000, 10_000, None,
            Terminal(output), should_stop, window,
        )  # fmt: skip
        assert window.is_closed
    assert num_closed == [1]
    assert 1 <= len(results) < 10_000
    assert all(result.episode.is_complete for result in results)


def test_without_a_display_the_alternative_is_named(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="there is no display: neither DISPLAY .* is set. .*film"):
        Window("arm")


def test_a_display_that_does_not_answer_is_named(monkeypatch):
    install_xvfb()  # for its libraries
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("DISPLAY", ":12345")
    with pytest.raises(ConfigError, match="cannot open a window on DISPLAY=:12345: .*video"):
        Window("arm")


def test_held_keys_are_known_and_escape_closes(display):
    with Window("arm", inputs="keyboard") as window:
        window.show(frame_of(RED, 200, 200), FAST)
        await_pixels(display, RED, (3 * 200) ** 2)

        def await_held(expected):
            def is_so():
                window.read_inputs()
                return list(window.held.items()) == expected

            wait_until(is_so, 60, what=f"inputs {expected}")

        display.press("Left")
        display.press("q")  # a key like others
        await_held([("left", 1.0), ("q", 1.0)])
        display.press("Left", is_down=False)
        await_held([("q", 1.0)])
        assert window.pressed == {"left", "q"}
        display.press("Escape")
        wait_until(lambda: window.read_inputs() or window.is_closed, 60, what="the end")


def test_without_a_gamepad_the_keyboard_is_named(display):
    with pytest.raises(ConfigError, match="--gamepad: no gamepad is connected .* --keyboard"):
        Window("arm", inputs="gamepad")
