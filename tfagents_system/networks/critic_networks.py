"""The built-in critics: Q(observation, action), also with an LSTM, and V(observation)."""

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.networks import encoders


class MlpCriticNetwork(network.Network):
    """(observation, action) -> joint Dense + ReLU layers -> Q; no state."""

    def __init__(
        self,
        input_tensor_spec,
        joint_fc_layer_params=(256, 256),
        preprocessing_combiner=None,
        name="MlpCriticNetwork",
    ):
        """Builds the layers; the variables appear with `create_variables`.

        Args:
          input_tensor_spec: (observation_spec, action_spec) without batch axis.
          joint_fc_layer_params: Units of each hidden layer.
          preprocessing_combiner: Keras layer that joins the leaves of a nested observation.
          name: Name of the network.
        """
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(input_tensor_spec[0], preprocessing_combiner)
        self.hidden_layers = encoders.dense_layers(joint_fc_layer_params)
        self.value_layer = tf.keras.layers.Dense(1, name="q_value")

    def call(self, inputs, step_type=None, network_state=(), training=False):
        """Returns (Q [B], `network_state` unchanged) for inputs (observation, action [B, A])."""
        observation, action = inputs
        features = tf.concat([self.encoder(observation), action], axis=-1)
        for layer in self.hidden_layers:
            features = layer(features)
        return tf.squeeze(self.value_layer(features), axis=-1), network_state


class MlpValueNetwork(network.Network):
    """Observation -> Dense + ReLU layers -> V; no state."""

    def __init__(
        self,
        observation_spec,
        fc_layer_params=(256, 256),
        preprocessing_combiner=None,
        name="MlpValueNetwork",
    ):
        """See `MlpCriticNetwork`."""
        super().__init__(input_tensor_spec=observation_spec, state_spec=(), name=name)
        self.encoder = encoders.ObservationEncoder(observation_spec, preprocessing_combiner)
        self.hidden_layers = encoders.dense_layers(fc_layer_params)
        self.value_layer = tf.keras.layers.Dense(1, name="state_value")

    def call(self, observation, step_type=None, network_state=(), training=False):
        """Returns (V [B], `network_state` unchanged)."""
        features = self.encoder(observation)
        for layer in self.hidden_layers:
            features = layer(features)
        return tf.squeeze(self.value_layer(features), axis=-1), network_state


class LstmCriticNetwork(network.Network):
    """observation -> Dense + ReLU -> LSTM; (its output, action) -> Dense + ReLU layers -> Q.

    The LSTM reads observations only, so the state after a step does not depend on which action is
    asked about. It has as many units as the first hidden layer.
    """

    def __init__(
        self,
        input_tensor_spec,
        joint_fc_layer_params=(256, 256),
        preprocessing_combiner=None,
        name="LstmCriticNetwork",
    ):
        """See `MlpCriticNetwork`; `joint_fc_layer_params` holds at least one layer."""
        units = joint_fc_layer_params[0]
        super().__init__(
            input_tensor_spec=input_tensor_spec,
            state_spec=encoders.lstm_state_spec(units),
            name=name,
        )
        self.encoder = encoders.ObservationEncoder(input_tensor_spec[0], preprocessing_combiner)
        self.observation_layer = encoders.dense_layers([units])[0]
        self.lstm = encoders.ResettingLstm(units)
        self.hidden_layers = encoders.dense_layers(joint_fc_layer_params[1:])
        self.value_layer = tf.keras.layers.Dense(1, name="q_value")

    def call(self, inputs, step_type=None, network_state=(), training=False):
        """Returns (Q [B] or [B, T], state after the last step); see `LstmActorNetwork.call`."""
        observation, action = inputs
        features = self.observation_layer(self.encoder(observation))
        features, network_state = self.lstm(features, step_type, network_state)
        features = tf.concat([features, action], axis=-1)
        for layer in self.hidden_layers:
            features = layer(features)
        return tf.squeeze(self.value_layer(features), axis=-1), network_state
