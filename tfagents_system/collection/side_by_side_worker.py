"""The worker with several environments, whose episodes run side by side."""

from collections.abc import Callable, Sequence
from typing import Any

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rejections import Rejections
from tfagents_system.collection.rollouts import Episode
from tfagents_system.collection.side_by_side import SideBySide
from tfagents_system.collection.taken_actions import TakenActions
from tfagents_system.core.state.reports import Phase
from tfagents_system.environments.replaceable import EnvironmentFailure
from tfagents_system.policies.acting import SlotPolicy
from tfagents_system.workers import Worker


class SideBySideWorker(Worker):
    """A worker that asks the policy for the actions of all its environments at once.

    For simulators that take less time than a call of the policy. Each slot's episodes are recorded
    and stored as those of a single environment. Between them and bursts, other episodes go on;
    evaluations and waits interrupt these for a while. A pause ends them all.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        """Takes the arguments of Worker."""
        super().__init__(*args, **kwargs)
        environments = self._environments
        self._slots = environments.slots()
        self._noted: EnvironmentFailure | None = None  # the last failure, perhaps of several slots
        self._action_spec = environments.collect.current().action_spec()
        self._observers = [environments.collect_observers, *environments.other_observers]
        # Of each slot's episode:
        self._curricula: dict[int, dict[str, Any]] = {}
        self._lessons: dict[int, Sequence[int]] = {}
        self._actions: dict[int, TakenActions] = {}
        self._episodes = SideBySide(
            self._slots,
            self._run.horizon,
            self._observe,
            self._records.timer,
            [InfoNumbers(self._run.params.log_info) for _ in self._observers],
        )

    def _observe(
        self, slot: int, time_step: Any, action: Any, next_time_step: Any, state: Any
    ) -> bool:
        self._records.env_step += 1
        info = self._slots.get_info(slot)
        actions = self._actions[slot]
        action = actions.taken(action, info)
        if observers := self._observers[slot]:
            observers(time_step, action, next_time_step)
        is_kept = self._adder.add(
            time_step, action, next_time_step, state, slot, actions.is_intervention
        )
        if relabelling := self._experience.relabelling:
            relabelling[slot].note(time_step, action, next_time_step, info, is_kept)
        self._rejections_of(slot).note(is_kept)
        return is_kept

    def _rejections_of(self, slot: int) -> Rejections:
        return self._rejections[slot * len(self._rejections) // self._slots.num_slots]

    def _collect(
        self, phase: Phase, policy: SlotPolicy, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Collects until an episode ends; ends all early when the run ends, or `is_enough`."""
        if self._episodes.idle_slots and not self._begin(phase, policy):
            return
        has_ended = False
        while not has_ended and self._episodes.are_running:
            env_step = self._records.env_step
            for slot, result in self._episodes.tick(policy):
                self._end(slot, result, phase)
                has_ended = True
            is_over = False
            if self._records.env_step == env_step:  # no agent has acted: perhaps none ever will
                is_over = self._should_end()
            if self._adder.is_burst_due:
                self._send(phase)
                is_over = is_over or self._should_end() or is_enough()
            if is_over or self._is_paused():  # last, because sending may have reported a pause
                self._end_episodes()

    def _begin(self, phase: Phase, policy: SlotPolicy) -> bool:
        """Begins an episode in each idle slot; returns False if the run ends."""
        if not self._may_begin(phase):
            return False
        lessons, env_step = self._policies.lessons, self._records.env_step
        states = {
            slot: self._environments.parameters(self._iteration, lessons, env_step, slot)
            for slot in self._episodes.idle_slots
        }
        self._curricula |= states
        self._lessons |= dict.fromkeys(states, lessons)
        for slot, failure in self._episodes.begin(policy, states):
            self._end(slot, failure, phase)
        for slot in states:
            self._actions[slot] = TakenActions(self._action_spec)
        return True

    def _end(self, slot: int, result: Episode | EnvironmentFailure, phase: Phase) -> None:
        """Ends a slot's episode, and adds its copies with other goals."""
        self._adder.end_episode(slot)
        if isinstance(result, Episode) and not result.is_complete:
            if error := self._nothing_kept(self._rejections_of(slot), phase):
                result = self._slots.judge(slot, error)
        if isinstance(result, EnvironmentFailure):
            if result is not self._noted:
                self._noted = result
                self._note(result)
            return
        if result.is_complete:
            numbers = {**result.numbers, **self._actions[slot].numbers}
            self._records.collected(
                result._replace(numbers=numbers),
                self._iteration,
                self._train_step,
                self._curricula[slot],
                self._lessons[slot],
            )
        if self._add_copies(slot, phase) and result.is_complete:
            self._note_success()

    def _add_copies(self, slot: int, phase: Phase) -> bool:
        """Adds the copies of a slot's episode with other goals; returns False after a failure."""
        try:
            for _ in self._experience.add_copies(self._slots.environment(slot), slot):
                self._send(phase)
                if self._should_end():
                    break
        except EnvironmentFailure as failure:
            self._adder.end_episode(slot)
            self._note(failure)
            return False
        return True

    def _end_episodes(self) -> None:
        """Ends all episodes early, after what they have had so far, and adds their copies."""
        for slot in self._episodes.running_slots:
            self._adder.end_episode(slot)
            if not self._should_end():
                self._add_copies(slot, Phase.COLLECTING)
        self._episodes.cut()

    def _hold(self) -> None:
        """Waits while collection is paused; then all episodes begin anew."""
        if self._is_paused():
            self._end_episodes()
        super()._hold()
