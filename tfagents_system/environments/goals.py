"""Reads the goals of an environment, and computes the rewards that other goals would have given.

The interface is that of GoalEnv in gymnasium-robotics: observations are dicts with `achieved_goal`
and `desired_goal`, and `compute_reward(achieved_goal, desired_goal, info)` returns the reward of an
env step that led to the achieved goal. It gets one goal, or goals [N, ...] with N infos.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.environments.layers import every_layer

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
_WHERE = "docs/sparse_rewards.md"


class Judgement(NamedTuple):
    """The rewards and ends that an environment returns for N env steps with given goals."""

    rewards: NDArray[np.float32]  # [N]
    is_terminal: NDArray[np.bool_] | None  # [N]; None if the goal does not decide it


class GoalJudge:
    """Computes rewards for other goals, and terminations if there is a `compute_terminated`."""

    def __init__(self) -> None:
        """Does not know yet whether `compute_reward` takes batches."""
        self._takes_batches: bool | None = None

    def judge(
        self,
        environment: Any,
        achieved: NDArray[Any],
        desired: NDArray[Any],
        infos: Sequence[Mapping[str, Any]],
    ) -> Judgement:
        """Returns rewards and ends of env steps.

        Args:
          environment: The environment, with all its wrappers.
          achieved: The goals after each env step, [N, ...].
          desired: The goals to judge them by, [N, ...].
          infos: The infos of the env steps.

        Raises:
          UserCodeError: If a method of the environment raises, or does not return numbers.
        """

        def rewards() -> NDArray[np.float32]:
            method = _method(environment, "compute_reward")
            if self._takes_batches is None:
                self._takes_batches = _takes_batches(method, achieved, desired, infos)
            if self._takes_batches:
                return np.asarray(method(achieved, desired, infos), np.float32)
            return _one_by_one(method, achieved, desired, infos, np.float32)

        def ends() -> NDArray[np.bool_]:  # no library takes batches here
            return _one_by_one(terminated, achieved, desired, infos, np.bool_)

        terminated = _method(environment, "compute_terminated")
        return Judgement(
            GUEST.call_often("compute_reward", rewards),
            GUEST.call_often("compute_terminated", ends) if terminated else None,
        )


def missing_for_goals(environment: Any) -> str:
    """Returns what an environment lacks for goals, in words; "" if it lacks nothing."""
    spec = environment.observation_spec()
    if not isinstance(spec, Mapping):
        return f"its observations are not dicts with {ACHIEVED} and {DESIRED}"
    if lacking := [name for name in (ACHIEVED, DESIRED) if name not in spec]:
        return f"its observations have no {' and no '.join(lacking)}, only {', '.join(spec)}"
    shapes = [getattr(spec[name], "shape", None) for name in (ACHIEVED, DESIRED)]
    if None in shapes or shapes[0] != shapes[1]:
        return f"{ACHIEVED} and {DESIRED} are not arrays of one shape ({spec[ACHIEVED]}, " \
               f"{spec[DESIRED]})"  # fmt: skip
    if _method(environment, "compute_reward") is None:
        return "it has no method compute_reward(achieved_goal, desired_goal, info)"
    return ""


def check_has_goals(environment: Any, num_copies: int) -> None:
    """Raises ConfigError, with the reason, if transitions cannot be copied with other goals."""
    if missing := missing_for_goals(environment):
        raise ConfigError(
            f"TrainParams.her_copies is {num_copies}, but the environment is not one of goals: "
            f"{missing}. Expected her_copies = 0; see {_WHERE}."
        )


def check_rewards_agree(given: NDArray[np.float32], computed: NDArray[np.float32]) -> None:
    """Raises ConfigError if `compute_reward` disagrees with the rewards of the env steps, [N]."""
    differs = ~np.isclose(given, computed, rtol=1e-4, atol=1e-5)
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        raise ConfigError(
            f"compute_reward of the environment returned {computed[first]:g} for env step "
            f"{first + 1} of the episode, whose reward was {given[first]:g} ({differs.sum()} of "
            f"{len(given)} env steps differ). Expected the reward of `step`, for the goals and "
            f"the info of that step: otherwise copies with other goals teach another task. See "
            f"{_WHERE}."
        )


def _method(environment: Any, name: str) -> Any:
    """Returns the method of the outermost layer that has one; None if none has."""
    methods = (getattr(layer, name, None) for layer in every_layer(environment))
    return next((method for method in methods if callable(method)), None)


def _one_by_one(
    method: Callable[..., Any], achieved: Any, desired: Any, infos: Sequence[Any], dtype: Any
) -> NDArray[Any]:
    triples = zip(achieved, desired, infos, strict=True)
    return np.array([np.asarray(method(*triple)).item() for triple in triples], dtype)


def _takes_batches(
    method: Callable[..., Any], achieved: Any, desired: Any, infos: Sequence[Any]
) -> bool:
    """Returns whether a batch gives the same results as its goals one by one."""
    expected = _one_by_one(method, achieved, desired, infos, np.float32)
    try:
        found = np.asarray(method(achieved, desired, infos), np.float32)
    except Exception:  # it takes one goal
        return False
    return found.shape == expected.shape and np.allclose(found, expected)
