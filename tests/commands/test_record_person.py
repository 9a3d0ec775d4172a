"""`sac record --keyboard` and `--gamepad`."""

import threading

import numpy as np
import pytest
from commands.test_record import LIMITED
from commands.test_record import files as files
from films.test_window import display as display

from tfagents_system.commands import record as record_module
from tfagents_system.commands.record import record
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.waiting import wait_until
from tfagents_system.demonstrations.files import read_demonstrations


def test_a_person_records_episodes_by_keys_in_the_window(display, files, tmp_path, capsys):
    output = tmp_path / "demos"
    failed = []

    def sits_at_the_keyboard():
        try:
            wait_until(lambda: (display.screen() != 0).any(), 60, what="the window")
            display.press("Left")  # begins the first episode, and acts
            wait_until(lambda: list(output.glob("*.npz")), 60, what="the end by the horizon")
            display.press("Left", is_down=False)
            display.press("Right")
            display.press("Right", is_down=False)
            display.press("Return")
            wait_until(lambda: len(list(output.glob("*.npz"))) == 2, 60, what="the end by a key")
        except Exception as error:
            failed.append(error)
            display.press("Escape")

    person = threading.Thread(target=sits_at_the_keyboard)
    person.start()
    record(keyboard=True, num_episodes=2, output=output, **files)
    person.join(timeout=60)
    assert not failed
    first, second = read_demonstrations(output)
    assert (first.length, first.end) == (20, "truncated")  # by the horizon
    assert first.actions["action"].tolist() == [[-2.0]] * 20
    assert 1 <= second.length <= 20
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["left: action[0] = -2", "right: action[0] = 2", "nothing: action[0] = 0"]
    assert lines[-1] == "2 episodes are recorded."


class PlayedWindow:
    """A window whose inputs are those of a script, one line for each time they are read."""

    def __init__(self, script):
        self._script = iter(script)
        self.held, self.pressed, self.is_closed = {}, set(), False
        self.frames = []

    def __call__(self, title, inputs):
        self.inputs = inputs
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def show(self, frame, frames_per_sec):
        self.frames.append(frame)

    def read_inputs(self, timeout_secs=0.0):
        held = next(self._script, None)
        if held is None:
            self.is_closed = True
            return
        self.pressed |= held.keys() - self.held.keys()
        self.held = held


@pytest.fixture
def played(monkeypatch):
    def play(script):
        window = PlayedWindow(script)
        monkeypatch.setattr(record_module, "Window", window)
        return window

    return play


def test_a_gamepads_stick_acts_and_buttons_end_and_drop(played, files, tmp_path, capsys):
    stick = {"axis0pos": 0.25}
    window = played([
        {}, stick,  # waits for the first input
        stick, stick, {"axis0pos": 0.5}, {"axis0pos": 0.5, "button7": 1.0},  # two env steps
        {}, {"axis0neg": 1.0}, {}, {"button6": 1.0},  # an env step, which is dropped
        {}, stick, {}, {},  # an env step, and then the window is closed
    ])  # fmt: skip
    record(gamepad=True, keys=("button7=end", "button6=drop"), output=tmp_path / "demos", **files)
    assert window.inputs == "gamepad"
    (episode,) = read_demonstrations(tmp_path / "demos")
    np.testing.assert_allclose(episode.actions["action"], [[0.25 * 2], [0.5 * 2]])
    assert episode.end == "truncated"
    lines = capsys.readouterr().out.splitlines()
    assert "axis0pos: action[0] = 2" in lines
    begins = [line.partition(" ")[0] for line in lines[-3:]]
    assert begins == [str(tmp_path / "demos/episode_000000.npz"), "dropped", "1"]
    # Before and after each of two env steps, then of the dropped and the unfinished episodes.
    assert len(window.frames) >= 3
    assert window.frames[0].shape == (500, 500, 3)


def test_what_a_limiter_has_taken_is_recorded(played, files, tmp_path):
    files["params"].write_text(LIMITED)
    stick = {"axis0pos": 0.25}
    played([{}, stick, stick, stick, stick, {**stick, "button7": 1.0}])  # two env steps
    output = tmp_path / "demos"
    record(gamepad=True, keys=("button7=end",), output=output, num_episodes=1, **files)
    (episode,) = read_demonstrations(output)
    np.testing.assert_allclose(episode.actions["action"], [[0.25 * 2 / 2]] * 2)


def test_contradictory_arguments_are_refused(files, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="leave out --keyboard"):
        record(keyboard=True, gamepad=True, **files)
    with pytest.raises(ConfigError, match="With --keyboard a person acts: leave out --policy"):
        record(keyboard=True, policy=tmp_path / "swings.py", **files)
    with pytest.raises(ConfigError, match="--keys is for --keyboard"):
        record(policy=tmp_path / "swings.py", keys=("left=1",), **files)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="--keyboard shows a window, and there is no display"):
        record(keyboard=True, output=tmp_path / "demos", **files)
    assert not (tmp_path / "demos").exists()
