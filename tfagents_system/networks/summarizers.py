"""Recurrent networks that summarize the observations of an episode so far."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.nests import Nest
from tfagents_system.networks.goal_conditioning import GoalReader
from tfagents_system.networks.observation_encoders import observation_encoder

_CELLS: dict[str, Callable[..., tf.keras.layers.Layer]] = {
    "lstm": tf.keras.layers.LSTMCell,
    "gru": lambda units, name: tf.keras.layers.GRUCell(units, reset_after=False, name=name),
    "rnn": tf.keras.layers.SimpleRNNCell,
}


class RecurrentSummarizer(network.Network):
    """Observation -> LSTM, GRU or plain recurrent layers -> features [units].

    A sequence belongs to one episode, so its state can only be reset before its first step.
    """

    def __init__(
        self,
        observation_spec: Nest,
        rnn_type: str = "lstm",
        units: int = 256,
        num_layers: int = 1,
        preprocessing_combiner: Callable[..., Any] | None = None,
        image_encoder: str | None = None,
        burn_in_len: int = 0,
        name: str = "RecurrentSummarizer",
    ):
        """Builds the layers; `create_variables` creates the variables.

        Args:
          observation_spec: Nest of TensorSpecs without batch axis.
          rnn_type: "lstm", "gru" or "rnn".
          units: Units of each layer.
          num_layers: At least 1.
          preprocessing_combiner: See `observation_encoder`.
          image_encoder: See `observation_encoder`.
          burn_in_len: Steps at the beginning of each sequence that only warm up the state, without
            gradient, unless the episode begins there. Less than the length of a sequence. Source:
            Kapturowski et al. 2019, R2D2, section 3.
          name: Name of the network.
        """
        parts = ("h", "c") if rnn_type == "lstm" else ("h",)
        super().__init__(
            input_tensor_spec=observation_spec,
            state_spec=[
                tf.TensorSpec([units], tf.float32, name=f"{part}_{index}")
                for index in range(num_layers)
                for part in parts
            ],
            name=name,
        )
        self.rnn_type = rnn_type
        self.encoder = observation_encoder(observation_spec, preprocessing_combiner, image_encoder)
        self.cells = [_CELLS[rnn_type](units, name=f"{rnn_type}_{i}") for i in range(num_layers)]
        self.goals = GoalReader(observation_spec)
        features_spec = tf.TensorSpec([units], tf.float32, name="features")
        self.features_spec = self.goals.spec_beside(features_spec)
        self._parts_per_layer = len(parts)
        self._burn_in_len = burn_in_len

    def call(
        self,
        observation: Nest,
        step_type: tf.Tensor | None = None,
        network_state: Nest = (),
        training: bool = False,
    ) -> tuple[Nest, Nest]:
        """Returns (features, state after the last step); the features as in `GoalReader.beside`.

        Args:
          observation: [B, ...] for one step or [B, T, ...] for a sequence.
          step_type: [B] or [B, T] int32: the state is reset if the first one is FIRST. None means
            MID.
          network_state: State after the step before, as in `state_spec`; () means zeros.
          training: Not used.
        """
        features = self.encoder(observation)
        is_sequence = features.shape.rank == 3
        state = network_state
        if not tf.nest.flatten(state):
            state = self.get_initial_state(tf.shape(features)[0])
        begins = tf.zeros([tf.shape(features)[0], 1], tf.bool)
        if step_type is not None:
            first = step_type[:, :1] if is_sequence else step_type[:, tf.newaxis]
            begins = tf.equal(first, ts.StepType.FIRST)
            state = [tf.where(begins, tf.zeros_like(part), part) for part in state]
        if not (is_sequence and self._burn_in_len):
            features, state = self._unrolled(features, state)
            return self.goals.beside(features, observation), state
        burn_in, state = self._unrolled(features[:, : self._burn_in_len], state)
        state = [tf.where(begins, part, tf.stop_gradient(part)) for part in state]
        features, state = self._unrolled(features[:, self._burn_in_len :], state)
        features = tf.concat([burn_in, features], axis=1)
        return self.goals.beside(features, observation), state

    def _unrolled(
        self, features: tf.Tensor, state: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        next_state: list[tf.Tensor] = []
        for index, cell in enumerate(self.cells):
            begin = index * self._parts_per_layer
            of_cell = list(state[begin : begin + self._parts_per_layer])
            if not cell.built:  # variables must not be created in a loop
                cell.build(features.shape)
            if features.shape.rank == 2:
                features, of_cell = cell(features, of_cell)
            elif self.rnn_type == "lstm":
                features, of_cell = _fused_lstm(cell, features, of_cell)
            else:
                _, features, of_cell = tf.keras.backend.rnn(cell, features, of_cell)
            next_state += of_cell
        return features, next_state


def _fused_lstm(
    cell: tf.keras.layers.LSTMCell, inputs: tf.Tensor, state: Sequence[tf.Tensor]
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs an LSTMCell over [B, T, n] by one op; returns (outputs [B, T, units], [h, c])."""
    h, c = state
    no_peephole = tf.zeros([cell.units])
    # BlockLSTMV2 has Keras' order of gates, but TensorFlow 2.15 gives it this op's gradient.
    _, cells, *_, outputs = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.cast(tf.shape(inputs)[1], tf.int64),
        x=tf.transpose(inputs, [1, 0, 2]),
        cs_prev=c,
        h_prev=h,
        w=_candidate_second(tf.concat([cell.kernel, cell.recurrent_kernel], axis=0)),
        wci=no_peephole,
        wcf=no_peephole,
        wco=no_peephole,
        b=_candidate_second(cell.bias),
        forget_bias=0.0,
        cell_clip=0.0,
        use_peephole=False,
    )
    return tf.transpose(outputs, [1, 0, 2]), [outputs[-1], cells[-1]]


def _candidate_second(columns: tf.Tensor) -> tf.Tensor:
    """Swaps the second and third of four gates: forget and candidate."""
    i, f, g, o = tf.split(columns, 4, axis=-1)
    return tf.concat([i, g, f, o], axis=-1)
