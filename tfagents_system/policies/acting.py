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
from tfagents_system.policies.numpy_actor import (
    NumpyActor,
    NumpyCollectPolicy,
    NumpyGreedyPolicy,
    NumpyNoisyPolicy,
    obstacle_to_numpy,
)


class ActingPolicy(Protocol):
    """Chooses actions for one environment, without batch axis."""

    def initial_state(self) -> Any:
        """Returns the state for the first time step of an episode."""

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action, state for the next step of the episode)."""


class RandomPolicy:
    """Draws actions uniformly from the bounds of the action spec, and from the allowed integers."""

    def __init__(self, action_spec: Any, seed: int):
        """`action_spec` is a nest of bounded ArraySpecs."""
        self._action_spec = action_spec
        self._choices = Choices(tree.flatten(action_spec))
        self._rng = np.random.RandomState(seed)

    def initial_state(self) -> Any:
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


class TfActingPolicy:
    """Acts with any TF-Agents policy, through one compiled function."""

    def __init__(self, policy: tf_policy.TFPolicy):
        """Traces nothing before the first action."""
        self._policy = policy
        self._action = tf.function(policy.action, autograph=False)  # traces seconds faster

    def initial_state(self) -> Any:
        """Returns the policy's initial state for a batch of one."""
        return self._policy.get_initial_state(batch_size=1)

    def action(self, time_step: ts.TimeStep, state: Any) -> tuple[Any, Any]:
        """Returns (action as NumPy arrays, state as tensors)."""
        batched = tf.nest.map_structure(lambda x: tf.convert_to_tensor(x)[tf.newaxis], time_step)
        step = self._action(batched, state)
        return tf.nest.map_structure(lambda x: x.numpy()[0], step.action), step.state


class AgentPolicies:
    """The collect and the greedy policy of an agent; `update` sets the variables of both."""

    collect: ActingPolicy
    greedy: ActingPolicy

    def __init__(self, agent: tf_agent.TFAgent, rng: np.random.Generator, noise_beta: float = 0.0):
        """Uses NumPy if the network is a built-in one; `rng` then draws the noise.

        Otherwise it uses TensorFlow, and `obstacle` tells why.

        Args:
          agent: The agent whose policies act.
          rng: Owned.
          noise_beta: Exponent of the noise's spectrum; see `ColoredNoise`.

        Raises:
          ConfigError: If `noise_beta` is not 0 and the network is not a built-in one.
        """
        self.variables: Sequence[tf.Variable] = agent.collect_policy.variables()
        self._actor = None
        self.obstacle = obstacle_to_numpy(agent.collect_policy)
        if self.obstacle is None:
            self._actor = NumpyActor(agent.collect_policy)
            self.collect = self._collect_policy(agent.collect_policy, rng, noise_beta)
            self.greedy = NumpyGreedyPolicy(self._actor)
        elif noise_beta:
            raise ConfigError(
                f"TrainParams.exploration_noise_beta is {noise_beta:g}, but NumPy cannot act, "
                f"because {self.obstacle}; allowed is 0 then."
            )
        else:
            self.collect = TfActingPolicy(agent.collect_policy)
            self.greedy = TfActingPolicy(agent.policy)

    def _collect_policy(
        self, policy: tf_policy.TFPolicy, rng: np.random.Generator, noise_beta: float
    ) -> ActingPolicy:
        assert self._actor is not None
        if not isinstance(policy, NoisyPolicy):
            return NumpyCollectPolicy(self._actor, rng, noise_beta)
        num_noises = self._actor.head.num_noises
        noise: Noise = ColoredNoise(num_noises, noise_beta, rng)
        if policy.is_ornstein_uhlenbeck:
            noise = OrnsteinUhlenbeckNoise(num_noises, rng)
        return NumpyNoisyPolicy(self._actor, noise, policy.std)

    def update(self, values: Sequence[NDArray[Any]]) -> None:
        """Replaces the policy's variables; `values` in the order of `variables`."""
        if self._actor is not None:
            self._actor.update(values)
            return
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)
