"""Runs episodes of one policy in one environment."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.info_numbers import InfoFault, InfoNumbers
from tfagents_system.collection.success import SuccessError, read_success
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments import own_arrays
from tfagents_system.policies.acting import ActingPolicy

LAST = int(ts.StepType.LAST)


class Environment(own_arrays.Environment, Protocol):
    """The part of a PyEnvironment that an episode needs."""

    def get_info(self) -> Any:
        """Returns the info of the last step."""


class Episode(NamedTuple):
    """The result of one episode."""

    episode_return: float  # undiscounted sum of rewards
    length: int  # env steps
    success: bool | None  # None if the environment does not report it
    is_complete: bool  # False if the observer ended it
    is_terminal: bool = False  # its last step has discount 0
    success_fault: str | None = None  # why the reported success is invalid
    numbers: Mapping[str, float] = {}  # those of `log_info`, by name
    info_faults: Sequence[InfoFault] = ()  # what of `log_info` cannot be recorded, each once


def run_episode(
    environment: Environment,
    policy: ActingPolicy,
    horizon: int,
    observe: Callable[[ts.TimeStep, Any, ts.TimeStep, Any], bool] | None = None,
    timer: PhaseTimer | None = None,
    numbers: InfoNumbers | None = None,
) -> Episode:
    """Runs one episode from its reset to its last step, `horizon` steps at most.

    An episode that reaches the horizon is cut by a time limit: its last step keeps the discount
    that the environment gave it, so values bootstrap across the cut.

    Args:
      environment: Reset here; unbatched.
      policy: Chooses the actions; its state is reset.
      horizon: Maximum number of env steps.
      observe: Called as observe(time_step, action, next_time_step, state) after each env step,
        where `state` is the policy's after the action; returning False ends the episode.
      timer: Enters the phases "acting", "env step" and, for `observe`, "writing".
      numbers: Reads the info of each env step, if it wants any number.

    Raises:
      InvalidArrayError: If an observation or action is not finite, before it is used; if a policy
        cannot act on the shape of an observation; or if a reward or the last discount is not a
        number.
    """
    enter: Callable[[str], object] = timer.enter if timer else _unmeasured
    enter("env step")
    time_step = own_arrays.reset(environment)
    first = time_step.observation
    state = policy.initial_state()
    episode_return = 0.0
    if numbers:
        numbers.begin()
    for length in range(1, horizon + 1):
        enter("acting")
        own_arrays.check_finite(time_step.observation, "observation", length - 1)
        try:
            action, state = policy.action(time_step, state)
        except Exception:
            own_arrays.check_shapes(time_step.observation, first, length - 1)
            raise
        own_arrays.check_finite(action, "action", length)
        enter("env step")
        next_time_step = own_arrays.step(environment, action)
        if numbers:
            numbers.add(_info(environment.get_info))
        enter("writing")
        try:  # inline, because this is the hot path
            episode_return += float(next_time_step.reward)
        except (TypeError, ValueError):
            raise no_number(next_time_step.reward, "reward", length) from None
        if observe is not None and not observe(time_step, action, next_time_step, state):
            return Episode(episode_return, length, None, False)
        time_step = next_time_step
        if time_step.step_type == LAST:
            break
    return complete_episode(environment.get_info, time_step, episode_return, length, numbers)


def complete_episode(
    get_info: Callable[[], Any],
    last: ts.TimeStep,
    episode_return: float,
    length: int,
    numbers: InfoNumbers | None,
) -> Episode:
    """Returns an episode that has reached its end.

    Args:
      get_info: Returns the info of the last step; may be not implemented.
      last: The last time step.
      episode_return: Sum of rewards.
      length: Number of env steps.
      numbers: As in `run_episode`.

    Raises:
      InvalidArrayError: If the last discount is not a number.
    """
    try:
        is_terminal = float(last.discount) == 0
    except (TypeError, ValueError):
        raise no_number(last.discount, "discount", length) from None
    success, fault = _success(get_info, last)
    episode = Episode(episode_return, length, success, True, is_terminal, fault)
    if numbers:
        episode = episode._replace(numbers=numbers.end(), info_faults=numbers.new_faults())
    return episode


def _unmeasured(phase: str) -> None:
    """Stands for the `enter` of a timer."""


def no_number(value: Any, name: str, env_step: int) -> own_arrays.InvalidArrayError:
    """Returns the error for a reward or discount that is not a number."""
    shape = f" of shape {list(value.shape)}" if hasattr(value, "shape") else ""
    return own_arrays.InvalidArrayError(
        f"{name} is a {type(value).__name__}{shape} at env step {env_step} of the episode; "
        "expected a number."
    )


def _info(get_info: Callable[[], Any]) -> Any:
    """Returns the info of the last step; None if the environment has none."""
    try:
        return get_info()
    except NotImplementedError:
        return None


def _success(get_info: Callable[[], Any], last: ts.TimeStep) -> tuple[bool | None, str | None]:
    """Returns the reported success, and why it is invalid."""
    try:
        return read_success(_info(get_info), last.observation), None
    except SuccessError as error:
        return None, str(error)
