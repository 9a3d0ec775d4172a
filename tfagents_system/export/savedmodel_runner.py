"""Acts with the policy in saved_model/; needs TensorFlow."""

import json
import pathlib

import numpy as np
import tensorflow as tf


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.inputs = json.loads((pathlib.Path(folder) / "inputs.json").read_text())
        self.model = tf.saved_model.load(str(pathlib.Path(folder) / "saved_model"))
        self.act = self.model.signatures["serving_default"]
        self.specs = self.act.structured_input_signature[1]
        self.reset()

    def reset(self):
        specs = {n: spec for n, spec in self.specs.items() if n not in self.inputs.values()}
        self.states = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        seen = {i: np.asarray_chkfinite(parts[n], "f4") for n, i in self.inputs.items()}
        seen = {name: tf.constant(part, self.specs[name].dtype) for name, part in seen.items()}
        outputs = {name: part.numpy() for name, part in self.act(**seen, **self.states).items()}
        self.states = {name: tf.constant(outputs.pop(f"next_{name}")) for name in self.states}
        return outputs.get("action", {n[len("action_") :]: a for n, a in outputs.items()})
