"""The environments of a worker's slots: each of its own, or those of one simulator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tf_agents.environments import wrappers
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import LAST
from tfagents_system.collection.side_by_side import FIRST, Answer
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.environments import own_arrays
from tfagents_system.environments.guest_environment import as_made, owner_of
from tfagents_system.environments.layers import py_layers
from tfagents_system.environments.replaceable import (
    EnvironmentFailure,
    ReplaceableEnvironment,
    check_first,
)
from tfagents_system.environments.slot_simulator import SlotSimulator

# What a wrapper changes the time steps, or their specs, by.
_OF_STEPS = ("reset", "step", "_reset", "_step", "observation_spec", "action_spec")


def num_slots_of(environment: Any) -> int:
    """Returns the number of slots of an environment; may start a simulator.

    Raises:
      ConfigError: If there are several, and a wrapper of the user's does not see their steps.
    """
    made = as_made(environment)
    simulators = [layer for layer in py_layers(made) if isinstance(layer, SlotSimulator)]
    if not simulators:
        return 1
    num_slots: int = simulators[-1].num_slots
    if num_slots > 1:
        _check_wrappers(made, num_slots)
    return num_slots


def _check_wrappers(made: Any, num_slots: int) -> None:
    """Raises ConfigError for a wrapper that passes the calls for slots on, and changes others."""
    plain = wrappers.PyEnvironmentBaseWrapper
    for layer in py_layers(made):
        if hasattr(type(layer), "step_slots"):
            return
        if any(getattr(type(layer), name) is not getattr(plain, name) for name in _OF_STEPS):
            raise ConfigError(
                f"env_ctor returns a {type(layer).__name__} around an environment with {num_slots} "
                "environments or agents, whose steps it would not change; expected a wrapper of "
                "a single one. Wrap each environment before they become a vector, or the parallel "
                "environment itself."
            )


class EnvironmentList:
    """Environments of their own, one in each slot; see SlotEnvironments."""

    def __init__(self, environments: Sequence[ReplaceableEnvironment]):
        """`environments` are owned, by slot."""
        self._environments = environments

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return len(self._environments)

    def reset(self, states: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Answer]:
        """Begins episodes; an environment that has failed is replaced."""
        answers: dict[int, Answer] = {}
        for slot, state in states.items():
            environment = self._environments[slot]
            try:
                environment.set_state(state)
                answers[slot] = own_arrays.reset(environment)
            except EnvironmentFailure as failure:
                answers[slot] = failure
        return answers

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Answer]:
        """Steps one environment after another."""
        answers: dict[int, Answer] = {}
        for slot, action in actions.items():
            try:
                answers[slot] = own_arrays.step(self._environments[slot], action)
            except EnvironmentFailure as failure:
                answers[slot] = failure
        return answers

    def get_info(self, slot: int) -> Any:
        """Returns the info of the slot's last step."""
        return self._environments[slot].get_info()

    def judge(self, slot: int, error: own_arrays.InvalidArrayError) -> EnvironmentFailure:
        """Retires the slot's environment; returns its failure."""
        return self._environments[slot].judge(error)

    def environment(self, slot: int) -> ReplaceableEnvironment:
        """Returns the slot's environment."""
        return self._environments[slot]


class SimulatorSlots:
    """The slots of one simulator; see SlotEnvironments.

    If it fails, the episodes of all slots end. Its slots share the values of a curriculum, of which
    the last win.
    """

    def __init__(self, environment: ReplaceableEnvironment):
        """`environment` is owned; inside is always a SlotSimulator."""
        self._environment = environment
        self.num_slots: int = as_made(environment.current()).num_slots
        self._failure: EnvironmentFailure | None = None  # that slots have not been told yet

    def reset(self, states: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Answer]:
        """Begins episodes, in a new environment if the last one has failed."""

        def reset(simulator: SlotSimulator) -> Mapping[int, ts.TimeStep]:
            return simulator.reset_slots(list(states))

        try:
            for state in states.values():
                self._environment.set_state(state)
        except EnvironmentFailure as failure:
            self._failure = failure
        return self._answers("reset", reset)

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Answer]:
        """Takes a step of the simulator."""
        own = own_arrays.own(actions)
        return self._answers("step", lambda simulator: simulator.step_slots(own))

    def get_info(self, slot: int) -> Any:
        """Returns the info of the slot's last step; {} once the simulator has failed."""
        if self._failure is not None:  # while the answers of the last step are taken over
            return {}
        return as_made(self._environment.current()).slot_info(slot)

    def judge(self, slot: int, error: own_arrays.InvalidArrayError) -> EnvironmentFailure:
        """Retires the simulator; returns its failure, which the other slots get, too."""
        if self._failure is None:
            self._failure = self._environment.judge(error)
        return self._failure

    def environment(self, slot: int) -> ReplaceableEnvironment:
        """Returns the simulator."""
        return self._environment

    def _answers(
        self, call: str, ask: Callable[[SlotSimulator], Mapping[int, ts.TimeStep]]
    ) -> Mapping[int, Answer]:
        def answers_of(environment: Any) -> Mapping[int, ts.TimeStep]:
            simulator = as_made(environment)
            name = f"{owner_of(simulator)}.{call}"
            answers = GUEST.call_often(name, ask, simulator)
            for answer in answers.values():
                if answer.step_type == FIRST:  # perhaps where another episode was cut
                    check_first(answer.observation, simulator.observation_spec(), name)
            return answers

        try:
            if self._failure is not None:
                raise self._failure
            answers = self._environment.ask(answers_of)
        except EnvironmentFailure as failure:
            self._failure = None
            return dict.fromkeys(range(self.num_slots), failure)
        return {
            slot: answer._replace(observation=own_arrays.own(answer.observation))
            for slot, answer in answers.items()
        }


class JoinedSlots:
    """The slots of several simulators, one after another; see SlotEnvironments.

    If one fails, only its own episodes end.
    """

    def __init__(self, simulators: Sequence[SimulatorSlots]):
        """`simulators` are owned."""
        self._simulators = simulators
        numbers = enumerate(simulator.num_slots for simulator in simulators)
        self._places = [(index, own) for index, number in numbers for own in range(number)]
        self._slots = {place: slot for slot, place in enumerate(self._places)}
        self._busy: set[int] = set()  # slots with an episode, or that will have one by themselves

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return len(self._places)

    def reset(self, states: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Answer]:
        """Begins episodes; each simulator that has failed is replaced."""
        self._busy |= states.keys()
        answers: dict[int, Answer] = {}
        for index, own in self._apart(states).items():
            answers |= self._taken(index, self._simulators[index].reset(own))
        return answers

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Answer]:
        """Takes a step of each simulator that has an episode, one after another."""
        answers: dict[int, Answer] = {}
        apart = self._apart(actions)
        for index in sorted({self._places[slot][0] for slot in self._busy}):
            simulator = self._simulators[index]
            answers |= self._taken(index, simulator.step(apart.get(index, {})))
        return answers

    def get_info(self, slot: int) -> Any:
        """Returns the info of the slot's last step."""
        index, own = self._places[slot]
        return self._simulators[index].get_info(own)

    def judge(self, slot: int, error: own_arrays.InvalidArrayError) -> EnvironmentFailure:
        """Retires the slot's simulator; returns its failure, which its other slots get, too."""
        index, own = self._places[slot]
        return self._simulators[index].judge(own, error)

    def environment(self, slot: int) -> ReplaceableEnvironment:
        """Returns the slot's simulator."""
        index, own = self._places[slot]
        return self._simulators[index].environment(own)

    def _apart(self, by_slot: Mapping[int, Any]) -> dict[int, dict[int, Any]]:
        """Returns values by simulator and its own slot."""
        apart: dict[int, dict[int, Any]] = {}
        for slot, value in by_slot.items():
            index, own = self._places[slot]
            apart.setdefault(index, {})[own] = value
        return apart

    def _taken(self, index: int, answers: Mapping[int, Answer]) -> dict[int, Answer]:
        """Returns a simulator's answers by slot."""
        taken = {self._slots[index, own]: answer for own, answer in answers.items()}
        self._busy -= {slot for slot, answer in taken.items() if _is_end(answer)}
        return taken


def _is_end(answer: Answer) -> bool:
    return isinstance(answer, EnvironmentFailure) or answer.step_type == LAST
