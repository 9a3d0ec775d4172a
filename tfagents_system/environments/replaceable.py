"""Replaces an environment that fails or hangs, without harm to its worker."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import tree
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.process.processes import Process
from tfagents_system.core.process.watchdog import Watchdog
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.environments.closing import call_close, end_started, started_by
from tfagents_system.environments.layers import have_common
from tfagents_system.environments.own_arrays import InvalidArrayError

T = TypeVar("T")


class EnvironmentFailure(UserCodeError):
    """An environment, or its constructor, raised; `__cause__` is the exception."""

    def __init__(self, error: Exception, num_failures: int):
        """`error` is failure number `num_failures`."""
        reason = error.reason if isinstance(error, UserCodeError) else repr(error)
        super().__init__(f"{error} (failure {num_failures} of this environment)", reason)
        self.kept_nothing = isinstance(error, InvalidArrayError) and error.kept_nothing


class ReplaceableEnvironment:
    """Replaces an environment that fails before the next reset.

    A failed environment is closed, in bounded time. After an EnvironmentFailure, `reset` builds a
    new environment. Then the processes that the failed one's constructor has started end, unless
    the new one shares them because it has started none itself. The watchdog ends this process if
    the environment does not return.
    """

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        make: Callable[[int], py_environment.PyEnvironment],
        watchdog: Watchdog,
    ):
        """Starts with `environment`.

        Args:
          environment: Owned from now on.
          make: Called with the number of failures so far; returns a new environment.
          watchdog: Fed at every call.
        """
        self._environment: py_environment.PyEnvironment | None = environment
        self._make = make
        self._watchdog = watchdog
        self._state: dict[str, Any] = {}
        self._left: frozenset[Process] = frozenset()  # processes of failed environments
        self._partner: ReplaceableEnvironment | None = None
        self.num_failures = 0

    def pair_with(self, other: "ReplaceableEnvironment") -> None:
        """Replaces both when one fails, as long as they share an environment."""
        self._partner, other._partner = other, self

    def current(self) -> py_environment.PyEnvironment:
        """Returns the working environment: a new one if the last one has failed."""
        if self._environment is None:
            try:
                self._environment = self._guard(self._make, self.num_failures)
            except EnvironmentFailure:
                self._end_left()  # they may block the new one
                raise
            if started_by(self._environment):
                self._end_left()
            for name, value in self._state.items():
                self._guard(self._environment.set_state, {name: value})
        return self._environment

    def reset(self) -> ts.TimeStep:
        """Begins an episode, in a new environment if the last one has failed."""
        return self._guard(_begin, self.current())

    def step(self, action: Any) -> ts.TimeStep:
        """Takes one env step."""
        self._watchdog.feed()
        try:  # without _guard, because this is the hot path
            assert self._environment is not None, "reset comes first"
            time_step = self._environment.step(action)
            if not hasattr(time_step, "step_type"):
                raise TypeError(_WHAT.format("step", type(time_step).__name__))
            return time_step
        except Exception as error:
            raise self._failure(error) from error

    def ask(self, question: Callable[[py_environment.PyEnvironment], T]) -> T:
        """Returns what `question` returns for the working environment, or raises a failure."""
        return self._guard(question, self.current())

    @property
    def state(self) -> dict[str, Any]:
        """The curriculum's values that have been set."""
        return self._state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Sets those of a curriculum's values that are new, also for later environments."""
        for name, value in state.items():
            if self._state.get(name) == value:
                continue
            self._state[name] = value
            if self._environment is not None:
                self._guard(self._environment.set_state, {name: value})

    def get_info(self) -> Any:
        """Returns the info of the last step; None if the environment has none."""
        try:
            assert self._environment is not None, "a step comes first"
            return self._environment.get_info()
        except NotImplementedError:
            return None
        except ConfigError:
            raise
        except Exception as error:
            raise self._failure(error) from error

    @contextlib.contextmanager
    def judged(self) -> Iterator[None]:
        """Turns a InvalidArrayError of the block into a failure of the environment."""
        try:
            yield
        except InvalidArrayError as error:
            raise self.judge(error) from error

    def judge(self, error: InvalidArrayError) -> EnvironmentFailure:
        """Retires the environment, which has caused `error`; returns its failure."""
        failure = self._failure(error)
        failure.__cause__ = error
        return failure

    def _retire(self) -> None:
        environment, self._environment = self._environment, None
        self._watchdog.feed()
        call_close(environment)
        self._left |= started_by(environment)
        partner = self._partner
        if partner is None or partner._environment is None:
            return
        if have_common(environment, partner._environment):  # closes that, too
            partner._retire()
            partner.num_failures += 1

    def _end_left(self) -> None:
        end_started(self._left)
        self._left = frozenset()

    def _guard(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._watchdog.feed()
        try:
            return call(*arguments)
        except ConfigError as error:
            if not FIRST_EPISODE.is_over():
                raise
            raise self._failure(error) from error
        except Exception as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Closes the current environment, if any, and ends the processes of all environments."""
        if self._environment is not None:
            self._retire()
        self._end_left()

    def _failure(self, error: Exception) -> EnvironmentFailure:
        if self._environment is not None:
            self._retire()
        self.num_failures += 1
        return EnvironmentFailure(error, self.num_failures)


_WHAT = "{} of the environment returned a {}; expected a TimeStep, such as ts.restart(observation)"


def _begin(environment: py_environment.PyEnvironment) -> ts.TimeStep:
    """Resets an environment.

    Raises:
      ConfigError: If the result is not a time step, or its observation does not fit the spec.
    """
    time_step = environment.reset()
    if not hasattr(time_step, "step_type"):
        raise ConfigError(f"{_WHAT.format('reset', type(time_step).__name__)}.")
    spec = environment.observation_spec()
    check_first(time_step.observation, spec, "reset of the environment")
    return time_step


def check_first(observation: Any, spec: Any, call: str) -> None:
    """Compares the first observation of an episode, which `call` has returned, with its spec.

    Raises:
      ConfigError: If structure or shapes differ.
    """
    try:
        tree.assert_same_structure(spec, observation, check_types=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{call} returned an observation that is not built as its "
            f"observation_spec says: {str(error).splitlines()[0]}"
        ) from error
    pairs = zip(tree.flatten_with_path(spec), tree.flatten_with_path(observation), strict=True)
    for (path, leaf), (_, value) in pairs:
        if np.shape(value) != tuple(leaf.shape):
            name = leaf_name("observation", *path)
            raise ConfigError(
                f"{call} returned {name} of shape {list(np.shape(value))}; "
                f"its observation_spec says {list(leaf.shape)}."
            )
