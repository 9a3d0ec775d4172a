"""Acts with the policy in policy.tflite; needs TensorFlow Lite."""

import json
import pathlib

import numpy as np
import tensorflow as tf  # or tflite_runtime, whose Interpreter is the same


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.inputs = json.loads((pathlib.Path(folder) / "inputs.json").read_text())
        path = str(pathlib.Path(folder) / "policy.tflite")
        self.act = tf.lite.Interpreter(path, num_threads=1).get_signature_runner()
        self.specs = self.act.get_input_details()
        self.reset()

    def reset(self):
        specs = {n: spec for n, spec in self.specs.items() if n not in self.inputs.values()}
        self.states = {name: np.zeros(s["shape"], s["dtype"]) for name, s in specs.items()}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        seen = {i: np.asarray_chkfinite(parts[n], "f4") for n, i in self.inputs.items()}
        seen = {name: part.astype(self.specs[name]["dtype"]) for name, part in seen.items()}
        outputs = self.act(**seen, **self.states)
        self.states = {name: outputs.pop(f"next_{name}") for name in self.states}
        return outputs.get("action", {n[len("action_") :]: a for n, a in outputs.items()})
