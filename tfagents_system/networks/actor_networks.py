"""The built-in actors: a multilayer perceptron, and one that reads a summary of observations."""

from tf_agents.networks import network

from tfagents_system.networks import encoders
from tfagents_system.networks.heads import action_head


class MlpActorNetwork(network.Network):
    """Observation -> Dense + ReLU layers -> distribution over actions, or action; no state."""

    def __init__(
        self,
        observation_spec,
        action_spec,
        fc_layer_params=(256, 256),
        preprocessing_combiner=None,
        deterministic=False,
        name="MlpActorNetwork",
    ):
        """Builds the layers; the variables appear with `create_variables`.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          action_spec: Of the environment; see `action_head`, also for its error.
          fc_layer_params: Units of each hidden layer.
          preprocessing_combiner: Keras layer that joins the leaves of a nested observation.
          deterministic: Whether the network gives an action in place of a distribution.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(observation_spec, preprocessing_combiner)
        self.hidden_layers = encoders.dense_layers(fc_layer_params)
        self.head = action_head(action_spec).output_layer(deterministic)

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns (distribution or action, the same state) for [B, ...] or [B, T, ...]."""
        features = self.encoder(observation)
        for layer in self.hidden_layers:
            features = layer(features)
        return self.head(features), network_state


class SummarizingActorNetwork(network.Network):
    """Observation -> summarizer -> actor of its features; the state is the summarizer's."""

    def __init__(self, summarizer, actor, name="SummarizingActorNetwork"):
        """Takes over both; `actor` may be trained alone, and `summarizer` with the critics.

        Args:
          summarizer: Such as RecurrentSummarizer.
          actor: MlpActorNetwork for the summarizer's features.
          name: Name of the network.
        """
        super().__init__(summarizer.input_tensor_spec, summarizer.state_spec, name=name)
        self.summarizer = summarizer
        self.actor = actor

    def copy(self, **kwargs):
        """Returns one with variables of its own."""
        parts = {"summarizer": self.summarizer.copy(), "actor": self.actor.copy()}
        return super().copy(**parts | kwargs)

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns (distribution or action, state after the last step); see the summarizer."""
        features, network_state = self.summarizer(observation, step_type, network_state)
        return self.actor(features)[0], network_state


class InputNormalizingActorNetwork(network.Network):
    """Observation -> normalizer -> actor; the state is the actor's."""

    def __init__(self, normalizer, actor, name="InputNormalizingActorNetwork"):
        """Takes over the actor.

        Args:
          normalizer: Normalizer, which the agent updates.
          actor: Any network that acts from observations.
          name: Name of the network.
        """
        super().__init__(normalizer.observation_spec, actor.state_spec, name=name)
        self.normalizer = normalizer
        self.actor = actor

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns what the actor does."""
        return self.actor(self.normalizer(observation), step_type, network_state)


def acting_network(actor, summarizer=None, normalizer=None) -> network.Network:
    """Returns the network that acts from observations of the environment.

    Args:
      actor: Takes the features of `summarizer`, if there is one.
      summarizer: Takes normalized observations, or the actor does, if there is a `normalizer`.
      normalizer: None takes them as they are.
    """
    network = actor if summarizer is None else SummarizingActorNetwork(summarizer, actor)
    return network if normalizer is None else InputNormalizingActorNetwork(normalizer, network)
