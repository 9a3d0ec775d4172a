"""Lets a person act in an environment, in a window that shows it."""

from typing import Any

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.commands.recording import Recording
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.films.camera import render_unnoticed
from tfagents_system.films.playback import Playback, playback_of
from tfagents_system.films.window import Window
from tfagents_system.policies.person import DROP, END, Controls

_POLL_SECS = 0.1


class Person:
    """A person as a policy, and the observer of `run_episode` that records the actions.

    An episode begins with the first key. Frames are shown in real time.
    """

    def __init__(self, environment: Any, window: Window, controls: Controls, recording: Recording):
        """Shows nothing yet."""
        self._environment = environment
        self._window = window
        self._controls = controls
        self._recording = recording
        self._playback: Playback | None = None
        self._num_steps = 0  # of the episode

    def initial_state(self, slot: int = 0) -> Any:
        """Returns the empty state."""
        return ()

    def action(self, time_step: Any, state: Any) -> tuple[Any, Any]:
        """Returns the action of the inputs held; before an episode's first one, waits for a key."""
        if self._num_steps == 0:
            self._show()
            self._window.pressed.clear()
            while not (self._window.pressed or self._window.is_closed):
                self._window.read_inputs(_POLL_SECS)
            self._window.pressed.clear()
        self._window.read_inputs()
        return self._controls.action(self._window.held, time_step.observation), state

    def observe(self, time_step: Any, action: Any, next_time_step: Any, state: Any) -> bool:
        """Records an env step, and shows the state after it; False ends the episode."""
        self._window.read_inputs()
        commands = self._controls.commands(self._window.pressed)
        self._window.pressed.clear()
        if self._window.is_closed or DROP in commands:
            self._recording.drop()
            self._num_steps = 0
            return False
        is_ended = END in commands
        self._recording.observe(time_step, action, next_time_step, is_ended=is_ended)
        self._num_steps += 1
        assert self._playback is not None, "action was called before"
        if self._num_steps % self._playback.steps_per_frame == 0:
            self._show()
        if self._recording.file:
            self._num_steps = 0
        return not is_ended

    def _show(self) -> None:
        try:
            frame = render_unnoticed(self._environment)
        except UserCodeError as error:
            if not isinstance(error.__cause__, NotImplementedError):
                raise
            raise ConfigError(
                "The environment does not implement render('rgb_array'), so a person cannot see "
                "it. Record your own loop instead: docs/demonstrations.md."
            ) from error
        self._playback = self._playback or playback_of(self._environment)
        self._window.show(frame, self._playback.frames_per_sec)


def record_person(
    environment: Any,
    window: Window,
    controls: Controls,
    horizon: int,
    num_episodes: int,
    recorder: Recorder,
) -> None:
    """Records `num_episodes` episodes of a person, or fewer if the window is closed."""
    print("\n".join(["An episode begins with the first key. In the window:", *controls.lines(),
                     "escape: ends the recording, and drops the episode"]), flush=True)  # fmt: skip
    recording = Recording(recorder, horizon, environment)
    person = Person(environment, window, controls, recording)
    num_kept = 0
    while num_kept < num_episodes and not window.is_closed:
        episode = run_episode(environment, person, horizon, person.observe)
        shown = f"return {episode.episode_return:.6g}, {episode.length} env steps"
        if recording.file:
            num_kept += 1
            print(f"{recording.file}  {shown}", flush=True)
        elif not window.is_closed:
            print(f"dropped  {shown}", flush=True)
    print(f"{num_kept} episodes are recorded.", flush=True)
