"""The built-in actors: a multilayer perceptron, optionally after a summarizer."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.leaves import only
from tfagents_system.core.nests import Nest
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.goal_conditioning import GoalReader
from tfagents_system.networks.heads import ActionHead
from tfagents_system.networks.hidden_layers import dense_layers, through
from tfagents_system.networks.normalizer import Normalizer
from tfagents_system.networks.observation_encoders import observation_encoder


class MlpActorNetwork(network.Network):
    """Observation -> Dense + ReLU layers -> distribution over actions, or action; no state."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        fc_layer_params: Sequence[int] = (256, 256),
        preprocessing_combiner: Callable[..., Any] | None = None,
        deterministic: bool = False,
        image_encoder: str | None = None,
        name: str = "MlpActorNetwork",
    ):
        """Builds the layers; `create_variables` creates the variables.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          action_spec: Spec of the environment's action; see `action_head`, also for its error.
          fc_layer_params: Units of each hidden layer.
          preprocessing_combiner: See `observation_encoder`.
          deterministic: Whether the network returns an action instead of a distribution.
          image_encoder: See `observation_encoder`.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = observation_encoder(observation_spec, preprocessing_combiner, image_encoder)
        self.goals = GoalReader(observation_spec)
        is_conditioned = self.goals.num_inputs > 0
        self.hidden_layers = dense_layers(fc_layer_params, is_conditioned=is_conditioned)
        self.head = action_head(action_spec).output_layer(deterministic)

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Any, Nest]:
        """Returns (distribution or action, the same state) for [B, ...] or [B, T, ...]."""
        goals = self.goals(observation)
        features = through(self.hidden_layers, self.encoder(observation), goals)
        return self.head(features), network_state


class SummarizingActorNetwork(network.Network):
    """Observation -> summarizer -> actor on its features; the state is the summarizer's."""

    def __init__(
        self,
        summarizer: network.Network,
        actor: network.Network,
        name: str = "SummarizingActorNetwork",
    ):
        """Takes both parts; `actor` may be trained alone, and `summarizer` with the critics.

        Args:
          summarizer: For example RecurrentSummarizer.
          actor: MlpActorNetwork for the summarizer's features.
          name: Name of the network.
        """
        super().__init__(summarizer.input_tensor_spec, summarizer.state_spec, name=name)
        self.summarizer = summarizer
        self.actor = actor

    def copy(self, **kwargs: Any) -> "SummarizingActorNetwork":
        """Returns a copy with its own variables."""
        parts = {"summarizer": self.summarizer.copy(), "actor": self.actor.copy()}
        return super().copy(**parts | kwargs)

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Any, Nest]:
        """Returns (distribution or action, state after the last step); see the summarizer."""
        features, network_state = self.summarizer(observation, step_type, network_state)
        return self.actor(features)[0], network_state


class InputNormalizingActorNetwork(network.Network):
    """Observation -> normalizer -> actor; the state is the actor's."""

    def __init__(
        self,
        normalizer: Normalizer,
        actor: network.Network,
        name: str = "InputNormalizingActorNetwork",
    ):
        """Wraps the actor and owns it.

        Args:
          normalizer: Normalizer, which the agent updates.
          actor: Any network that acts from observations.
          name: Name of the network.
        """
        super().__init__(normalizer.observation_spec, actor.state_spec, name=name)
        self.normalizer = normalizer
        self.actor = actor

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Any, Nest]:
        """Returns the actor's (distribution or action, state) for the normalized observation."""
        return self.actor(self.normalizer(observation), step_type, network_state)


class MaskingActorNetwork(network.Network):
    """Observation with a mask -> actor on the rest -> its distribution with the mask."""

    def __init__(
        self,
        observation_spec: Nest,
        actor: network.Network,
        head: ActionHead,
        name: str = "MaskingActorNetwork",
    ):
        """Wraps the actor and owns it; `observation_spec` has the mask, `head` is the action's."""
        super().__init__(observation_spec, actor.state_spec, name=name)
        self.actor = actor
        self._head = head

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Any, Nest]:
        """Returns (distribution, the actor's state) for [B, ...] or [B, T, ...]."""
        actor_input = only(observation, self.actor.input_tensor_spec)
        distribution, network_state = self.actor(actor_input, step_type, network_state)
        return self._head.masked(distribution, observation[ACTION_MASK]), network_state


def acting_network(
    actor: network.Network,
    summarizer: network.Network | None = None,
    normalizer: Normalizer | None = None,
) -> network.Network:
    """Returns the network that acts on observations of the environment, without their mask.

    Args:
      actor: Takes the features of `summarizer`, if there is one.
      summarizer: Takes the observations; None: the actor takes them.
      normalizer: Normalizes the observations; None leaves them unchanged.
    """
    if summarizer is not None:
        actor = SummarizingActorNetwork(summarizer, actor)
    return actor if normalizer is None else InputNormalizingActorNetwork(normalizer, actor)
