"""The policies of workers and evaluations."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tree
from numpy.typing import NDArray
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.exploration import NoisyPolicy
from tfagents_system.core.action_masks import ACTION_MASK, Choices, has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.policies.noise import ColoredNoise, Noise, OrnsteinUhlenbeckNoise
from tfagents_system.policies.numpy_actor import NumpyActor, has_convolutions, obstacle_to_numpy
from tfagents_system.policies.numpy_policies import (
    NumpyCollectPolicy,
    NumpyGreedyPolicy,
    NumpyNoisyPolicy,
    generators,
)


class ActingPolicy(Protocol):
    """Chooses actions for one environment, without batch axis."""

    def initial_state(self) -> Any:
        """Returns the state for the first time step of an episode."""

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action, state for the next step of the episode)."""


class SlotPolicy(ActingPolicy, Protocol):
    """Acts in several environments at once, each in a slot with a number from 0.

    A slot's actions are those of a policy that acts in its environment alone, in slot 0.
    """

    def initial_state(self, slot: int = 0) -> Any:
        """Returns the state for the first time step of an episode of `slot`."""

    def actions(
        self, slots: Sequence[int], time_steps: Sequence[ts.TimeStep], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns (actions, states for the next steps); all are in the order of `slots`.

        Each slot is in `slots` at most once.
        """


class RandomPolicy:
    """Draws actions uniformly from the bounds of the action spec, and from the allowed integers."""

    def __init__(self, action_spec: Any, seed: int):
        """`action_spec` is a nest of bounded ArraySpecs."""
        self._action_spec = action_spec
        self._choices = Choices(tree.flatten(action_spec))
        self._rng = np.random.RandomState(seed)

    def initial_state(self, slot: int = 0) -> Any:
        """Returns the empty state."""
        return ()

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (a random action, `state`)."""
        action = array_spec.sample_spec_nest(self._action_spec, self._rng)
        if self._choices.sizes and has_mask(time_step.observation):
            leaves = [np.array(leaf) for leaf in tree.flatten(action)]
            self._choices.draw(leaves, time_step.observation[ACTION_MASK], self._rng)
            action = tree.unflatten_as(self._action_spec, leaves)
        return action, state

    def actions(
        self, slots: Sequence[int], time_steps: Sequence[ts.TimeStep], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns (random actions, `states`)."""
        return [self.action(time_step, ())[0] for time_step in time_steps], states


class TfActingPolicy:
    """Acts with any TF-Agents policy, through one compiled function."""

    def __init__(self, policy: tf_policy.TFPolicy):
        """Traces nothing before the first action."""
        self._policy = policy
        # Without autograph, tracing is seconds faster.
        self._action = tf.function(policy.action, autograph=False, reduce_retracing=True)

    def initial_state(self, slot: int = 0) -> Any:
        """Returns the policy's initial state for a batch of one."""
        return self._policy.get_initial_state(batch_size=1)

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action as NumPy arrays, state as tensors)."""
        batched = tf.nest.map_structure(lambda x: tf.convert_to_tensor(x)[tf.newaxis], time_step)
        step = self._action(batched, state)
        return tf.nest.map_structure(lambda x: x.numpy()[0], step.action), step.state

    def actions(
        self, slots: Sequence[int], time_steps: Sequence[ts.TimeStep], states: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns (actions as NumPy arrays, states as tensors for a batch of one)."""
        # tf.stack would convert NumPy's uint8, such as images, to int32.
        batched = tf.nest.map_structure(lambda *x: np.stack(x), *time_steps)
        step = self._action(batched, tf.nest.map_structure(lambda *x: tf.concat(x, 0), *states))
        actions = tf.nest.map_structure(lambda x: x.numpy(), step.action)
        return (
            [
                tf.nest.map_structure(lambda x, row=row: x[row], actions)
                for row in range(len(slots))
            ],
            [
                tf.nest.map_structure(lambda x, row=row: x[row : row + 1], step.state)
                for row in range(len(slots))
            ],
        )


class AgentPolicies:
    """The collect and the greedy policy of an agent; `update` sets the variables of both."""

    collect: SlotPolicy
    greedy: SlotPolicy

    def __init__(
        self,
        agent: tf_agent.TFAgent,
        rng: np.random.Generator,
        noise_beta: float = 0.0,
        num_slots: int = 1,
    ):
        """Uses NumPy if the network is a built-in one; `rng` then draws the noise.

        Otherwise it uses TensorFlow, and `obstacle` tells why.

        Args:
          agent: The agent whose policies act.
          rng: Owned.
          noise_beta: Exponent of the noise's spectrum; see `ColoredNoise`.
          num_slots: Slots in which `collect` acts.

        Raises:
          ConfigError: If noise is to be correlated in time, and NumPy cannot act.
        """
        self.variables: Sequence[tf.Variable] = agent.collect_policy.variables()
        self._actor = None
        self.obstacle = obstacle_to_numpy(agent.collect_policy)
        if self.obstacle is None and has_convolutions(agent.collect_policy):
            self.obstacle = "its network has convolutions"
        if self.obstacle is None:
            self._actor = NumpyActor(agent.collect_policy)
            self.collect = self._collect_policy(
                agent.collect_policy, generators(rng, num_slots), noise_beta
            )
            self.greedy = NumpyGreedyPolicy(self._actor)
        else:
            self._check_noise_is_white(agent.collect_policy, noise_beta)
            self.collect = TfActingPolicy(agent.collect_policy)
            self.greedy = TfActingPolicy(agent.policy)

    def _check_noise_is_white(self, policy: tf_policy.TFPolicy, noise_beta: float) -> None:
        """Raises ConfigError for noise that is correlated in time, which TensorFlow cannot draw."""
        is_ornstein_uhlenbeck = isinstance(policy, NoisyPolicy) and policy.is_ornstein_uhlenbeck
        for name, value, allowed in (
            ("exploration_noise_beta", f"{noise_beta:g}", "0"),
            ("exploration_noise", is_ornstein_uhlenbeck and "ornstein_uhlenbeck", "gaussian"),
        ):
            if value and value != allowed:
                raise ConfigError(
                    f"TrainParams.{name} is {value}, but NumPy cannot act, because "
                    f"{self.obstacle}; expected {allowed}."
                )

    def _collect_policy(
        self, policy: tf_policy.TFPolicy, rngs: Sequence[np.random.Generator], noise_beta: float
    ) -> SlotPolicy:
        """Returns the policy with a generator of noise for each slot."""
        assert self._actor is not None
        if not isinstance(policy, NoisyPolicy):
            return NumpyCollectPolicy(self._actor, rngs, noise_beta)
        num_noises = self._actor.head.num_noises
        noises: list[Noise] = [ColoredNoise(num_noises, noise_beta, rng) for rng in rngs]
        if policy.is_ornstein_uhlenbeck:
            noises = [OrnsteinUhlenbeckNoise(num_noises, rng) for rng in rngs]
        return NumpyNoisyPolicy(self._actor, noises, policy.std)

    def update(self, values: Sequence[NDArray[Any]]) -> None:
        """Replaces the policy's variables; `values` are in the order of `variables`."""
        if self._actor is not None:
            self._actor.update(values)
            return
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)
