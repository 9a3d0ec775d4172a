"""Acts with the policy in policy.onnx; needs onnxruntime."""

import pathlib

import numpy as np
import onnxruntime


class Policy:
    """Greedy actions, one observation at a time; each episode begins with reset()."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # more would cost time in a network of this size
        path = str(pathlib.Path(folder) / "policy.onnx")
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.reset()

    def reset(self):
        _, *states = self.session.get_inputs()
        self.states = {state.name: np.zeros(state.shape, np.float32) for state in states}

    def action(self, observation):
        inputs = self.states | {"observation": np.asarray(observation, np.float32)}
        action, *states = self.session.run(None, inputs)
        self.states = dict(zip(self.states, states))
        return action
