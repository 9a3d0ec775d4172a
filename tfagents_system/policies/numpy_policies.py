"""Acting with a built-in actor in NumPy, in one environment or in several at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts

from tfagents_system.policies.noise import ColoredNoise, JointNoise, Noise
from tfagents_system.policies.numpy_actor import NumpyActor
from tfagents_system.policies.numpy_layers import Array


class _RandomPolicy:
    """Acts with separate noise for each slot; see SlotPolicy."""

    def __init__(
        self,
        actor: NumpyActor,
        noises: Sequence[Noise],
        choose: Callable[[Array, NDArray[np.float32]], Any],
    ):
        """`actor` may be shared; `noises` are owned, one for each slot.

        `choose` returns the actions for outputs of the actor and noise.
        """
        self._actor, self._noises, self._choose = actor, noises, choose

    def initial_state(self, slot: int = 0) -> Any:
        """Starts new noise and returns the actor's state before the first step of an episode."""
        self._noises[slot].restart()
        return self._actor.initial_state()

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action, next state)."""
        outputs, state = self._actor.outputs(time_step.observation, state)
        return self._choose(outputs, self._noises[0].next()), state

    def actions(
        self, slots: Sequence[int], time_steps: Sequence[ts.TimeStep], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns (actions, next states)."""
        observations = [time_step.observation for time_step in time_steps]
        outputs, states = self._actor.outputs_of_all(observations, states)
        noise = np.stack([self._noises[slot].next() for slot in slots])
        return _apart(self._choose(outputs, noise), len(slots)), states


class NumpyCollectPolicy(_RandomPolicy):
    """Samples actions, with noise that is optionally correlated in time."""

    def __init__(
        self, actor: NumpyActor, rngs: Sequence[np.random.Generator], noise_beta: float = 0.0
    ):
        """`actor` may be shared; `rngs`, one for each slot, are owned.

        `noise_beta` applies to continuous actions.
        """
        num_choices = actor.head.num_choices
        num_others = actor.head.num_noises - num_choices

        def noise(rng: np.random.Generator) -> Noise:
            continuous = ColoredNoise(num_others, noise_beta, rng)
            if not num_choices:
                return continuous
            return JointNoise([continuous, ColoredNoise(num_choices, 0.0, rng)])

        super().__init__(actor, list(map(noise, rngs)), actor.head.sample)


class NumpyNoisyPolicy(_RandomPolicy):
    """Adds noise to a deterministic actor's action."""

    def __init__(self, actor: NumpyActor, noises: Sequence[Noise], std: float):
        """`actor` may be shared; `noises`, one for each slot, are owned, and scaled by `std`."""
        scale, head = np.float32(std), actor.head
        super().__init__(
            actor, noises, lambda outputs, noise: head.perturbed(outputs, scale * noise)
        )


class NumpyGreedyPolicy:
    """Acts greedily, without noise; see SlotPolicy."""

    def __init__(self, actor: NumpyActor):
        """`actor` may be shared."""
        self._actor = actor

    def initial_state(self, slot: int = 0) -> Any:
        """Returns the actor's state before the first step of an episode."""
        return self._actor.initial_state()

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action, next state)."""
        outputs, state = self._actor.outputs(time_step.observation, state)
        return self._actor.head.greedy(outputs), state

    def actions(
        self, slots: Sequence[int], time_steps: Sequence[ts.TimeStep], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns (actions, next states)."""
        observations = [time_step.observation for time_step in time_steps]
        outputs, states = self._actor.outputs_of_all(observations, states)
        return _apart(self._actor.head.greedy(outputs), len(slots)), states


def generators(rng: np.random.Generator, num_slots: int) -> Sequence[np.random.Generator]:
    """Returns a generator for each slot, independent of the others; a single one is `rng`."""
    return [rng] if num_slots == 1 else rng.spawn(num_slots)


def _apart(actions: Any, count: int) -> Sequence[Any]:
    """Returns the actions that a nest of arrays [count, ...] holds."""
    if isinstance(actions, np.ndarray):
        return list(actions)
    return [tree.map_structure(lambda leaf, row=row: leaf[row], actions) for row in range(count)]
