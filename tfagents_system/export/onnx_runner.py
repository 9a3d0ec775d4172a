"""Acts with the policy in policy.onnx; needs onnxruntime."""

import json
import pathlib

import numpy as np
import onnxruntime


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        path, options = str(pathlib.Path(folder) / "policy.onnx"), onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # more threads would cost time in a small network
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.inputs = json.loads(self.session.get_modelmeta().custom_metadata_map["inputs"])
        self.reset()

    def reset(self):
        self.outputs = [output.name for output in self.session.get_outputs()]
        states = [i for i in self.session.get_inputs() if f"next_{i.name}" in self.outputs]
        self.states = {state.name: np.zeros(state.shape, np.float32) for state in states}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        seen = {i: np.asarray_chkfinite(parts[n], "f4") for n, i in self.inputs.items()}
        outputs = dict(zip(self.outputs, self.session.run(None, {**seen, **self.states})))
        self.states = {name: outputs.pop(f"next_{name}") for name in self.states}
        return outputs.get("action", {n[len("action_") :]: a for n, a in outputs.items()})
