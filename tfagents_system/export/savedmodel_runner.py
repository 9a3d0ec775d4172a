"""Acts with the policy in saved_model/; needs TensorFlow."""

import pathlib

import numpy as np
import tensorflow as tf


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.model = tf.saved_model.load(str(pathlib.Path(folder) / "saved_model"))
        self.act = self.model.signatures["serving_default"]
        self.specs = self.act.structured_input_signature[1]
        self.reset()

    def reset(self):
        specs = {name: spec for name, spec in self.specs.items() if name.startswith("policy_state")}
        self.states = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        for part in parts.values():
            np.asarray_chkfinite(part)  # raises ValueError: no action for NaN
        parts = {name: tf.constant(part, self.specs[name].dtype) for name, part in parts.items()}
        outputs = {name: part.numpy() for name, part in self.act(**parts, **self.states).items()}
        self.states = {name: tf.constant(outputs.pop(f"next_{name}")) for name in self.states}
        return outputs.get("action", {n.removeprefix("action_"): a for n, a in outputs.items()})
