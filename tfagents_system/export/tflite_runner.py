"""Acts with the policy in policy.tflite; needs TensorFlow Lite."""

import pathlib

import numpy as np
import tensorflow as tf  # or tflite_runtime, whose Interpreter is the same


class Policy:
    """Greedy actions, one observation at a time; each episode begins with reset().

    A nest is a dict of its parts, such as {"camera": ..., "arm_angles": ...}.
    """

    def __init__(self, folder=pathlib.Path(__file__).parent):
        path = str(pathlib.Path(folder) / "policy.tflite")
        self.act = tf.lite.Interpreter(path, num_threads=1).get_signature_runner()
        self.specs = self.act.get_input_details()
        self.reset()

    def reset(self):
        specs = {name: spec for name, spec in self.specs.items() if name.startswith("policy_state")}
        self.states = {name: np.zeros(s["shape"], s["dtype"]) for name, s in specs.items()}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        parts = {n: np.asarray_chkfinite(p, self.specs[n]["dtype"]) for n, p in parts.items()}
        outputs = self.act(**parts, **self.states)
        self.states = {name: outputs.pop(f"next_{name}") for name in self.states}
        return outputs.get("action", {n.removeprefix("action_"): a for n, a in outputs.items()})
