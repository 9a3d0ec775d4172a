"""The built-in actor networks in NumPy: a step takes a tenth of a tf.function call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tree
from numpy.typing import NDArray
from tf_agents.networks import network
from tf_agents.policies import actor_policy, tf_policy

from tfagents_system.agents.exploration import NoisyPolicy
from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.leaves import only
from tfagents_system.networks.actor_networks import (
    InputNormalizingActorNetwork,
    MaskingActorNetwork,
    MlpActorNetwork,
    SummarizingActorNetwork,
)
from tfagents_system.networks.encoders import ObservationEncoder
from tfagents_system.networks.goal_conditioning import GoalConditionedDense
from tfagents_system.networks.heads import NumpyHead
from tfagents_system.networks.normalizer import Normalizer
from tfagents_system.networks.normalizing_networks import NormalizingActorNetwork
from tfagents_system.networks.observation_encoders import VisualSummarizer, is_visual
from tfagents_system.networks.summarizers import RecurrentSummarizer
from tfagents_system.policies.encoder_steps import Read, encoder_arrays
from tfagents_system.policies.numpy_encoders import features
from tfagents_system.policies.numpy_layers import (
    Array,
    generated,
    read_layers,
    run_layers,
    zero_states,
)

_DENSE = tf.keras.layers.Dense
_Parts = tuple[Normalizer | None, network.Network | None, network.Network]


def obstacle_to_numpy(policy: tf_policy.TFPolicy) -> str | None:
    """Returns why `NumpyActor` does not support `policy`; None if it does.

    It supports an ActorPolicy with a built-in actor, also inside a NoisyPolicy.
    """
    policy = _without_noise(policy)
    if type(policy) is not actor_policy.ActorPolicy:
        return f"it is a {type(policy).__name__} and no ActorPolicy of TF-Agents"
    if policy.observation_normalizer is not None:
        return "it has an observation_normalizer of TF-Agents"
    _, summarizer, actor = _parts_of(_without_mask(policy._actor_network))
    built_in = type(None), RecurrentSummarizer, VisualSummarizer
    actors = MlpActorNetwork, NormalizingActorNetwork
    if type(actor) not in actors or type(summarizer) not in built_in:
        return f"its network is a {type(policy._actor_network).__name__}, no built-in one"
    encoder = (summarizer or actor).encoder
    if isinstance(encoder, ObservationEncoder) and encoder.combiner is not None:
        return "its network has a preprocessing_combiner"
    return None


def has_convolutions(policy: tf_policy.TFPolicy) -> bool:
    """Returns whether a policy without obstacle has convolutions, which TensorFlow runs faster."""
    _, summarizer, actor = _parts_of(_without_mask(_without_noise(policy)._actor_network))
    return is_visual((summarizer or actor).encoder)


def _without_noise(policy: tf_policy.TFPolicy) -> tf_policy.TFPolicy:
    return policy.actor_policy if isinstance(policy, NoisyPolicy) else policy


def _without_mask(actor: network.Network) -> network.Network:
    return actor.actor if type(actor) is MaskingActorNetwork else actor


def _parts_of(actor: network.Network) -> _Parts:
    """Returns the normalizer and the summarizer, if any, and the network after them."""
    normalizer = summarizer = None
    if type(actor) is InputNormalizingActorNetwork:
        normalizer, actor = actor.normalizer, actor.actor
    if type(actor) is SummarizingActorNetwork:
        summarizer, actor = actor.summarizer, actor.actor
    return normalizer, summarizer, actor


def _dense_layers_of(actor: network.Network, read: Read) -> list[tuple[Array, Array]]:
    """Returns kernel and bias of each dense layer, with normalizations folded in.

    A layer that is generated from goals is left out.
    """
    if isinstance(actor, NormalizingActorNetwork):
        return actor.layers_of_head.folded(read)
    layers = [*actor.hidden_layers, actor.head.projection]
    return [(read(own.kernel), read(own.bias)) for own in layers if isinstance(own, _DENSE)]


def _goal_arrays_of(
    summarizer: network.Network | None, actor: network.Network, read: Read
) -> dict[str, NDArray[Any]]:
    """Returns the arrays of `numpy_layers.generated`; none if no layer is generated from goals."""
    layers = getattr(actor, "hidden_layers", [])
    if not layers or not isinstance(layers[-1], GoalConditionedDense):
        return {}
    arrays = {
        "are_goals_beside": np.array(summarizer is not None),
        "generated_bias": read(layers[-1].bias),
    }
    for index, layer in enumerate([*layers[-1].goal_layers, layers[-1].generator]):
        arrays[f"goal_kernel_{index}"] = read(layer.kernel)
        arrays[f"goal_bias_{index}"] = read(layer.bias)
    return arrays


class NumpyActor:
    """The weights and the forward pass of a built-in actor, for one observation or several.

    The actor is SAC's, with a distribution, or a deterministic agent's.
    """

    def __init__(self, policy: tf_policy.TFPolicy):
        """Copies the weights of `policy`, which must have no obstacle."""
        policy = _without_noise(policy)
        self.is_masked = type(policy._actor_network) is MaskingActorNetwork
        acting = _without_mask(policy._actor_network)
        self._seen_spec = acting.input_tensor_spec
        self._normalizer, summarizer, actor = _parts_of(acting)
        variables = policy.variables()
        position = {variable.ref(): index for index, variable in enumerate(variables)}
        self._network, self._summarizer, self._position = actor, summarizer, position
        self._encoder = (summarizer or actor).encoder
        self._recurrent: dict[str, int] = {}  # indices by the names of `read_layers`
        if isinstance(summarizer, RecurrentSummarizer):
            for layer, cell in enumerate(summarizer.cells):
                for part in ("kernel", "recurrent_kernel", "bias"):
                    name = f"{summarizer.rnn_type}_{part}_{layer}"
                    self._recurrent[name] = position[getattr(cell, part).ref()]
        self.head: NumpyHead = actor.head.numpy_head()  # converts `outputs` to actions
        self.update([variable.numpy() for variable in variables])

    def update(self, values: Sequence[Array]) -> None:
        """Replaces the weights; `values` are in the order of `policy.variables()`."""
        self._values = [np.ascontiguousarray(value) for value in values]

        def read(variable: tf.Variable) -> NDArray[Any]:
            return self._values[self._position[variable.ref()]]

        self._layers = _dense_layers_of(self._network, read)
        self._recurrent_layers = read_layers(self._recurrent_arrays())
        self._inputs: dict[str, NDArray[Any]] = {}  # see `features`
        if self._normalizer is not None:
            statistics = read(self._normalizer.mean), read(self._normalizer.variance)
            self._inputs |= self._normalizer.arrays(*statistics)
        self._inputs |= encoder_arrays(self._encoder, read)
        self._goal_arrays = _goal_arrays_of(self._summarizer, self._network, read)
        # An array of zeros, because a scalar doubles the time of np.maximum.
        self._zeros = np.zeros(max(bias.size for _, bias in self._layers), np.float32)

    def arrays(self) -> dict[str, Array]:
        """Returns the arrays from which greedy actions are computed, by name.

        Those of the normalizer, if any, come first, see `Normalizer.arrays`; then the encoder's,
        see `encoded`; then recurrent layers, see `read_layers`; then `hidden_kernel_<k>`,
        `hidden_bias_<k>` of each layer; then those of a layer that is generated from goals, see
        `generated`; then the head's.
        """
        *hidden, last = self._layers
        arrays = self._inputs | self._recurrent_arrays()
        for index, (hidden_kernel, hidden_bias) in enumerate(hidden):
            arrays[f"hidden_kernel_{index}"] = hidden_kernel
            arrays[f"hidden_bias_{index}"] = hidden_bias
        return arrays | self._goal_arrays | self.head.arrays(*last)

    def initial_state(self) -> Any:
        """Returns the state before the first step of an episode; see `zero_states`."""
        return zero_states(self._recurrent_layers)

    def _recurrent_arrays(self) -> dict[str, Array]:
        return {name: self._values[index] for name, index in self._recurrent.items()}

    def outputs(self, observation: Any, state: Any) -> tuple[Array, Any]:
        """Returns (outputs of the last layer for the head, next state)."""
        outputs, state = self._run(self._vector(observation), state)
        if self.is_masked:
            outputs = self.head.masked(outputs, observation[ACTION_MASK])
        return outputs, state

    def outputs_of_all(
        self, observations: Sequence[Any], states: Sequence[Any]
    ) -> tuple[Array, Sequence[Any]]:
        """Returns `outputs` of B observations, with a state each: ([B, n], next states)."""
        joined = [[np.stack(part) for part in zip(*layer, strict=True)]
                  for layer in zip(*states, strict=True)]  # fmt: skip
        outputs, joined = self._run(np.stack(list(map(self._vector, observations))), joined)
        if self.is_masked:
            masks = np.stack([observation[ACTION_MASK] for observation in observations])
            outputs = self.head.masked(outputs, masks)
        if joined:
            states = [[[part[row] for part in layer] for layer in joined]
                      for row in range(len(observations))]  # fmt: skip
        return outputs, states

    def _vector(self, observation: Any) -> Array:
        """Returns the entries of an observation that the actor sees, [m]."""
        if isinstance(observation, np.ndarray):
            return np.asarray(observation, np.float32).ravel()
        seen = tree.flatten(only(observation, self._seen_spec))
        parts = [np.asarray(part, np.float32).ravel() for part in seen]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _run(self, x: Array, state: Any) -> tuple[Array, Any]:
        """Returns (outputs, next state) for inputs [..., m].

        Raises:
          ValueError: For another m; a single number would be normalized to m.
        """
        if self._normalizer is not None and x.shape[-1] != self._inputs["observation_mean"].size:
            size = self._inputs["observation_mean"].size
            raise ValueError(f"an observation has {x.shape[-1]} numbers; expected {size}")
        x, goals = features(self._inputs, x)
        *hidden, (kernel, bias) = self._layers
        if self._recurrent_layers:
            x, state = run_layers(self._recurrent_layers, x, state)
        if goals is not None and self._goal_arrays["are_goals_beside"]:
            x = np.concatenate([x, goals], axis=-1)
        for hidden_kernel, hidden_bias in hidden:
            x = np.dot(x, hidden_kernel)
            x += hidden_bias
            np.maximum(x, self._zeros[: x.shape[-1]], out=x)
        if goals is not None:
            x = generated(self._goal_arrays, x, goals)
        x = np.dot(x, kernel)
        x += bias
        return x, state
