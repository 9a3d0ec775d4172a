"""Calls the objects that TrainParams.callbacks returns, in the program where something happens."""

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST, user_traceback
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.settings.attribute_names import is_typing_error
from tfagents_system.core.settings.hooks import call_hook, copied
from tfagents_system.core.state.end_request import request_end
from tfagents_system.core.state.paths import ExperimentPaths

METHODS = (
    "on_start", "on_episode", "on_iteration", "on_evaluation", "on_checkpoint", "on_end",
)  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class Event:
    """The facts that every callback gets; `on_start` gets no others."""

    program: str  # learner, worker_<k> or evaluator_<k>
    exp_dir: pathlib.Path
    train_step: int  # of the program's policy
    iteration: int
    reason_to_stop: str | None = dataclasses.field(default=None, init=False, repr=False)

    def stop_training(self, reason: str) -> None:
        """Ends training in the regular way, as if it had reached its last iteration."""
        self.reason_to_stop = str(reason)


@dataclasses.dataclass(kw_only=True)
class EpisodeEvent(Event):
    """A worker has completed an episode, of collection or of an evaluation."""

    is_evaluation: bool
    episode_return: float
    length: int  # env steps
    success: bool | None  # None if the environment does not report it
    numbers: Mapping[str, float]  # those of `log_info`
    env_step: int  # of this program, over all its starts


@dataclasses.dataclass(kw_only=True)
class IterationEvent(Event):
    """The learner has completed an iteration."""

    metrics: Mapping[str, float]  # such as critic_loss: means over the last train steps


@dataclasses.dataclass(kw_only=True)
class EvaluationEvent(Event):
    """The last episode of an evaluation is complete; `train_step` is its policy's."""

    returns: Sequence[float]  # of all episodes, in all programs
    mean_return: float
    success_rate: float | None
    numbers: Mapping[str, float]  # the numbers of `log_info`, means over the episodes
    is_best: bool  # whether no evaluation of the run was better


@dataclasses.dataclass(kw_only=True)
class CheckpointEvent(Event):
    """A checkpoint is complete; `train_step` is the checkpoint's."""

    checkpoint: pathlib.Path  # its folder


@dataclasses.dataclass(kw_only=True)
class EndEvent(Event):
    """The program ends."""

    end: str  # finished, stopped or diverged


class Callbacks:
    """The callbacks of one program, and the newest failure of one.

    A callback that raises is named in the log and the status, and is called again at the next
    event; training goes on.
    """

    def __init__(self, hook: Callable[..., Any], program: str, paths: ExperimentPaths):
        """Makes the callbacks by calling `hook`, TrainParams.callbacks.

        Raises:
          ConfigError: If it does not return a list of objects with some of METHODS.
        """
        self.failure: str | None = None  # the newest, with its place
        self._program, self._paths = program, paths
        self._told: set[tuple[str, str]] = set()
        self._methods: dict[str, list[tuple[str, Callable[[Event], Any]]]] = {}
        callbacks = call_hook(hook, program=program)
        if not isinstance(callbacks, (list, tuple)):
            raise ConfigError(
                f"TrainParams.callbacks returned {callbacks!r}; expected a list of objects with "
                f"some of the methods {', '.join(METHODS)}."
            )
        for callback in callbacks:
            for name in self._known_methods(callback):
                shown = f"{type(callback).__name__}.{name}"
                self._methods.setdefault(name, []).append((shown, getattr(callback, name)))

    def _known_methods(self, callback: Any) -> list[str]:
        own = [n for n in dir(callback) if n.startswith("on_") and callable(getattr(callback, n))]
        name = type(callback).__name__
        for unknown in (n for n in own if n not in METHODS):
            if meant := [method for method in METHODS if is_typing_error(unknown, method)]:
                raise ConfigError(
                    f"TrainParams.callbacks returned a {name} with the method {unknown}, which "
                    f"nothing calls. Did you mean {meant[0]}?"
                )
        if not (known := [n for n in own if n in METHODS]):
            raise ConfigError(
                f"TrainParams.callbacks returned a {name}, which has none of the methods "
                f"{', '.join(METHODS)}."
            )
        return known

    @property
    def names(self) -> list[str]:
        """The methods that are called, such as Mail.on_end."""
        return [name for methods in self._methods.values() for name, _ in methods]

    @OnlyReports("callbacks")
    def call(self, method: str, kind: type[Event], **facts: Any) -> None:
        """Calls `method` of all callbacks that have it, each with its own event."""
        for name, function in self._methods.get(method, ()):
            event = kind(program=self._program, exp_dir=self._paths.root, **copied(facts))
            try:
                with GUEST.visit(name):
                    function(event)
            except Exception as error:
                self._note(name, error)
            if event.reason_to_stop is not None:
                request_end(self._paths, f"{event.reason_to_stop} ({name})")

    def _note(self, name: str, error: Exception) -> None:
        self.failure = f"CALLBACK FAILED: {error}"
        kind = name, type(error.__cause__ or error).__name__
        if kind not in self._told:
            self._told.add(kind)
            print(f"{user_traceback(error)}{self.failure}. Training continues.",
                  file=sys.stderr, flush=True)  # fmt: skip
