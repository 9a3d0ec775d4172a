"""Fakes that several test folders share."""

import pathlib

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.state.incarnation import CORE, Claims, Fence

UNRIVALLED = Fence(Claims(pathlib.Path("nobody/claims/here")), CORE, 0)  # nothing supersedes it


class FakeClock:
    """A clock that moves only when told to; `sleep` moves it, so that nothing really waits."""

    def __init__(self, now: float = 0.0):
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, secs: float) -> None:
        self.now += secs


class CountingEnv(py_environment.PyEnvironment):
    """Observation [1] = env steps since the reset, reward = the same number.

    Ends with discount 0 at step `terminates_at`, with discount 1 at step `truncates_at`; both None
    never end. `actions` is the tape of all actions.
    """

    def __init__(
        self,
        terminates_at: int | None = None,
        truncates_at: int | None = None,
        bounds: tuple[float, float] = (-1.0, 1.0),
    ):
        super().__init__()
        self._terminates_at, self._truncates_at = terminates_at, truncates_at
        self._bounds = bounds
        self._count = 0
        self.actions: list[np.ndarray] = []

    def observation_spec(self):
        return array_spec.ArraySpec([1], np.float32, "observation")

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, *self._bounds, "action")

    def _observation(self) -> np.ndarray:
        return np.array([self._count], np.float32)

    def _reset(self) -> ts.TimeStep:
        self._count = 0
        return ts.restart(self._observation())

    def _step(self, action) -> ts.TimeStep:
        self._count += 1
        self.actions.append(np.array(action))
        reward = np.float32(self._count)
        if self._count == self._terminates_at:
            return ts.termination(self._observation(), reward)
        if self._count == self._truncates_at:
            return ts.truncation(self._observation(), reward)
        return ts.transition(self._observation(), reward)


class RecordingCurriculumEnv(CountingEnv):
    """A CountingEnv with a tape of `set_state` calls and resets.

    `tape` holds {name: value} for each `set_state` and "reset" for each reset, in order.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.tape: list = []

    def set_state(self, state) -> None:
        self.tape.append(dict(state))

    def _reset(self) -> ts.TimeStep:
        self.tape.append("reset")
        return super()._reset()


class Tape:
    """Callbacks that write down the events of one program, and raise at each."""

    def __init__(self):
        self.events = []

    def _note(self, event):
        self.events.append(event)
        raise RuntimeError("tape is full")

    on_start = on_episode = on_iteration = on_checkpoint = on_end = _note
