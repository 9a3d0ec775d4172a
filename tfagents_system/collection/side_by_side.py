"""Runs episodes side by side: one policy call for all environments of a worker."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import LAST, Episode, complete_episode, no_number
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments import own_arrays
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.policies.acting import SlotPolicy

FIRST = int(ts.StepType.FIRST)

Answer = Any  # a TimeStep, or the EnvironmentFailure that has ended the slot's episode


class SlotEnvironments(Protocol):
    """Environments whose episodes run side by side, each in a slot with a number from 0.

    A time step of type FIRST begins a slot's episode, and one of type LAST ends it. Arrays are not
    shared with the environments.
    """

    @property
    def num_slots(self) -> int:
        """Number of slots."""

    def reset(self, states: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Answer]:
        """Begins an episode in each slot of `states`, which are those of a curriculum.

        A slot without an answer begins later: its first time step is an answer of `step`.
        """

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Answer]:
        """Takes an env step; `actions` are of the slots that have answered.

        A slot without an answer needs no action until it has one.
        """

    def get_info(self, slot: int) -> Any:
        """Returns the info of the slot's last step."""

    def judge(self, slot: int, error: own_arrays.InvalidArrayError) -> EnvironmentFailure:
        """Returns the failure of the environment that has caused `error`."""

    def environment(self, slot: int) -> ReplaceableEnvironment:
        """Returns the environment that the slot belongs to."""


class End(NamedTuple):
    """The end of a slot's episode."""

    slot: int
    result: Episode | EnvironmentFailure


@dataclasses.dataclass(slots=True)
class _Running:
    """A slot's episode so far."""

    first: Any  # observation
    time_step: ts.TimeStep
    state: Any  # the policy's
    length: int = 0
    episode_return: float = 0.0
    action: Any = None
    is_acting: bool = False  # the environment has not answered the action yet


class SideBySide:
    """Runs an episode in each slot, and asks the policy for all actions at once.

        states = {slot: {} for slot in episodes.idle_slots}
        for slot, end in episodes.begin(policy, states): ...
        for slot, end in episodes.tick(policy): ...   # an env step in each slot

    Both go on while they are iterated, and yield the ends of episodes when they happen. An episode
    of a slot is the same as with `run_episode`, whatever the others do.
    """

    def __init__(
        self,
        environments: SlotEnvironments,
        horizon: int,
        observe: Callable[[int, ts.TimeStep, Any, ts.TimeStep, Any], bool],
        timer: PhaseTimer,
        numbers: Sequence[InfoNumbers],
    ):
        """Begins no episode.

        Args:
          environments: The environments.
          horizon: Maximum number of env steps of an episode.
          observe: As of `run_episode`, with the slot before the other arguments.
          timer: As of `run_episode`.
          numbers: As of `run_episode`, for each slot.
        """
        self._environments, self._horizon = environments, horizon
        self._observe, self._timer, self._numbers = observe, timer, numbers
        self._running: dict[int, _Running] = {}
        self._awaited: set[int] = set()  # slots whose episodes begin with a later answer

    @property
    def idle_slots(self) -> Sequence[int]:
        """The slots without an episode."""
        slots = range(self._environments.num_slots)
        return [slot for slot in slots if slot not in self._running and slot not in self._awaited]

    @property
    def running_slots(self) -> Sequence[int]:
        """The slots with an episode that has begun."""
        return list(self._running)

    @property
    def are_running(self) -> bool:
        """True if any slot has an episode, or will have one without another reset."""
        return bool(self._running or self._awaited)

    def begin(self, policy: SlotPolicy, states: Mapping[int, Mapping[str, Any]]) -> Iterator[End]:
        """Begins an episode in each idle slot, with the curriculum's state; yields failures."""
        self._timer.enter("env step")
        answers = self._environments.reset(states) if states else {}
        self._awaited.update(slot for slot in states if slot not in answers)
        yield from self._take(policy, answers)

    def cut(self) -> None:
        """Forgets all episodes."""
        self._running.clear()
        self._awaited.clear()

    def tick(self, policy: SlotPolicy) -> Iterator[End]:
        """Takes an env step in each slot that has an episode; yields the ends of episodes."""
        self._timer.enter("acting")
        actions, ends = self._act(policy)
        self._timer.enter("env step")
        answers = self._environments.step(actions)
        yield from ends
        yield from self._take(policy, answers)

    def _act(self, policy: SlotPolicy) -> tuple[Mapping[int, Any], list[End]]:
        """Returns the actions of all slots that need one, and the failures of environments."""
        ends: list[End] = []
        asking = {}
        for slot, running in sorted(self._running.items()):
            if running.is_acting:
                continue
            try:
                observation = running.time_step.observation
                own_arrays.check_finite(observation, "observation", running.length)
                asking[slot] = running
            except own_arrays.InvalidArrayError as error:
                ends.append(self._fail(slot, error))
        try:
            chosen, states = _choose(policy, asking)
        except Exception:
            # Only now, as in `run_episode`, because comparing takes as long as acting.
            if not (misshapen := list(self._misshapen(asking))):
                raise
            ends += misshapen
            chosen, states = _choose(policy, asking)
        actions = {}
        for (slot, running), action, state in zip(asking.items(), chosen, states, strict=True):
            try:
                own_arrays.check_finite(action, "action", running.length + 1)
            except own_arrays.InvalidArrayError as error:
                ends.append(self._fail(slot, error))
                continue
            running.action, running.state, running.is_acting = action, state, True
            actions[slot] = action
        return actions, ends

    def _misshapen(self, asking: dict[int, _Running]) -> Iterator[End]:
        """Ends the episodes whose observations have other shapes than their first ones.

        Removes their slots from `asking`.
        """
        for slot, running in list(asking.items()):
            try:
                observation = running.time_step.observation
                own_arrays.check_shapes(observation, running.first, running.length)
            except own_arrays.InvalidArrayError as error:
                del asking[slot]
                yield self._fail(slot, error)

    def _take(self, policy: SlotPolicy, answers: Mapping[int, Answer]) -> Iterator[End]:
        """Takes over what the environments have answered; yields the ends of episodes."""
        self._timer.enter("writing")
        for slot, answer in answers.items():
            if isinstance(answer, EnvironmentFailure):
                self._running.pop(slot, None)
                self._awaited.discard(slot)
                yield End(slot, answer)
            elif answer.step_type == FIRST:
                self._awaited.discard(slot)
                state = policy.initial_state(slot)
                self._running[slot] = _Running(answer.observation, answer, state)
                self._numbers[slot].begin()
            else:
                try:
                    episode = self._step(slot, answer)
                except own_arrays.InvalidArrayError as error:
                    yield self._fail(slot, error)
                    continue
                except EnvironmentFailure as failure:  # of the info
                    del self._running[slot]
                    yield End(slot, failure)
                    continue
                if episode:
                    del self._running[slot]
                    yield End(slot, episode)

    def _step(self, slot: int, next_time_step: ts.TimeStep) -> Episode | None:
        """Adds an env step to a slot's episode; returns the episode if it ends."""
        running, numbers = self._running[slot], self._numbers[slot]
        if numbers:
            numbers.add(self._environments.get_info(slot))
        running.length += 1
        try:
            running.episode_return += float(next_time_step.reward)
        except (TypeError, ValueError):
            raise no_number(next_time_step.reward, "reward", running.length) from None
        goes_on = self._observe(
            slot, running.time_step, running.action, next_time_step, running.state
        )
        running.time_step, running.is_acting = next_time_step, False
        if not goes_on:
            return Episode(running.episode_return, running.length, None, False)
        if running.length < self._horizon and next_time_step.step_type != LAST:
            return None
        return complete_episode(
            functools.partial(self._environments.get_info, slot),
            next_time_step,
            running.episode_return,
            running.length,
            numbers,
        )

    def _fail(self, slot: int, error: own_arrays.InvalidArrayError) -> End:
        del self._running[slot]
        return End(slot, self._environments.judge(slot, error))


def _choose(
    policy: SlotPolicy, asking: Mapping[int, _Running]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Returns the actions of the slots in `asking`, and the policy's next states."""
    if not asking:
        return [], []
    return policy.actions(
        list(asking),
        [running.time_step for running in asking.values()],
        [running.state for running in asking.values()],
    )
