"""Acts with the policy in saved_model/; needs TensorFlow."""

import pathlib

import tensorflow as tf


class Policy:
    """Greedy actions, one observation at a time; each episode begins with reset().

    A nested observation is a dict of its parts, such as {"camera": ..., "arm_angles": ...}.
    """

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
        parts = {name: tf.constant(part, self.specs[name].dtype) for name, part in parts.items()}
        outputs = self.act(**parts, **self.states)
        self.states = {name: outputs[f"next_{name}"] for name in self.states}
        return outputs["action"].numpy()
