"""Copies the env steps of an episode with goals that the episode has achieved."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.settings.training_settings import HerStrategy
from tfagents_system.environments.goals import (
    ACHIEVED,
    DESIRED,
    GoalJudge,
    Judgement,
    check_rewards_agree,
)
from tfagents_system.environments.replaceable import ReplaceableEnvironment
from tfagents_system.environments.time_left import is_used_up


class Copy(NamedTuple):
    """An env step with another goal."""

    time_step: ts.TimeStep
    action: Any
    next_time_step: ts.TimeStep
    is_last: bool  # the next copy has another goal, or there is none


class GoalRelabelling:
    """Hindsight experience replay: each env step again, as if other goals had been desired.

        relabelling.note(time_step, action, next_time_step, info, is_kept)   # every env step
        for copy in relabelling.copies(environment): ...   # after each episode

    Reward and end of a copy are the environment's for its goal. If the environment does not tell
    ends by the goal, a copy keeps its discount, as it does if `time_aware` and no time is left.
    Source: Andrychowicz et al. 2017, Hindsight Experience Replay, arXiv:1707.01495.
    """

    def __init__(
        self,
        num_copies: int,
        strategy: HerStrategy,
        rng: np.random.Generator,
        time_aware: bool,
    ):
        """Copies each env step `num_copies` times, with goals by `strategy` that `rng` draws.

        `time_aware` is the setting of the environment.
        """
        self._num_copies = num_copies
        self._strategy = strategy
        self._rng = rng
        self._time_aware = time_aware
        self._judge = GoalJudge()
        self._agrees = False  # known from the first episode
        self._steps: list[tuple[ts.TimeStep, Any, ts.TimeStep]] = []
        self._infos: list[Mapping[str, Any]] = []

    def note(
        self,
        time_step: ts.TimeStep,
        action: Any,
        next_time_step: ts.TimeStep,
        info: Any,
        is_kept: bool,
    ) -> None:
        """Remembers an env step that is kept; the first of an episode forgets those before."""
        if time_step.step_type == ts.StepType.FIRST:
            self._forget()
        if not is_kept:  # rejected, as for NaN
            return
        self._steps.append((time_step, action, next_time_step))
        self._infos.append(dict(info) if isinstance(info, Mapping) else {})

    def copies(self, environment: ReplaceableEnvironment) -> Iterator[Copy]:
        """Yields the copies of the env steps so far, whether their episode is over or cut.

        Raises:
          EnvironmentFailure: If the environment fails to judge them.
          ConfigError: If it gives the env steps themselves other rewards than they had.
        """
        if self._steps:
            found = environment.ask(self._copies)
            self._forget()
            yield from found

    def _forget(self) -> None:
        self._steps, self._infos = [], []

    def _copies(self, environment: Any) -> Iterator[Copy]:
        achieved = np.stack([after.observation[ACHIEVED] for _, _, after in self._steps])
        if not self._agrees:
            self._compare(environment, achieved)
        num_steps = len(self._steps)
        chosen = np.concatenate(
            [draw_goals(self._strategy, num_steps, self._rng) for _ in range(self._num_copies)]
        )
        desired = achieved[chosen]
        judgement = self._judge.judge(
            environment,
            np.concatenate([achieved] * self._num_copies),
            desired,
            self._infos * self._num_copies,
        )
        return _relabelled(self._steps, chosen, desired, judgement, self._time_aware)

    def _compare(self, environment: Any, achieved: NDArray[Any]) -> None:
        """Compares the rewards of the env steps with the environment's for the same goals."""
        desired = np.stack([after.observation[DESIRED] for _, _, after in self._steps])
        given = np.array([after.reward for _, _, after in self._steps], np.float32)
        check_rewards_agree(
            given, self._judge.judge(environment, achieved, desired, self._infos).rewards
        )
        self._agrees = True


def _relabelled(
    steps: Sequence[tuple[ts.TimeStep, Any, ts.TimeStep]],
    chosen: NDArray[np.intp],
    desired: NDArray[Any],
    judgement: Judgement,
    time_aware: bool,
) -> Iterator[Copy]:
    """Yields copies of all `steps`, one after another, with the goals `desired` [copies x T]."""
    for index, (goal, reward) in enumerate(zip(desired, judgement.rewards, strict=True)):
        place = index % len(steps)
        before, action, after = steps[place]
        discount = after.discount
        is_over = time_aware and is_used_up(after.observation)
        if judgement.is_terminal is not None and not is_over:
            discount = np.float32(not judgement.is_terminal[index])
        yield Copy(
            before._replace(observation={**before.observation, DESIRED: goal}),
            action,
            after._replace(
                observation={**after.observation, DESIRED: goal}, reward=reward, discount=discount
            ),
            is_last=place == len(steps) - 1 or bool(chosen[index] != chosen[index + 1]),
        )


def draw_goals(strategy: HerStrategy, num_steps: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Returns, for each env step of an episode, the env step whose achieved goal it gets: [T].

    With "future", each of the T - t env steps from t on is equally likely for env step t. The draws
    of neighbours depend on each other so that they mostly agree, because a run of env steps with
    one goal takes half the rows of as many with goals of their own: backwards in time, t itself
    comes in with probability 1 / (T - t), otherwise the goal stays that of t + 1.
    """
    if strategy == "final":
        return np.full(num_steps, num_steps - 1)
    if strategy == "episode":
        return np.full(num_steps, rng.integers(num_steps))
    steps = np.arange(num_steps)
    comes_in = rng.random(num_steps) < 1 / (num_steps - steps)
    goals = np.where(comes_in, steps, num_steps - 1)
    return np.minimum.accumulate(goals[::-1])[::-1]
