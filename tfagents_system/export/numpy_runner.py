"""Acts with the policy in policy.npz, by recurrent_step.py beside it; needs NumPy alone."""

import pathlib
import runpy

import numpy as np


class Policy:
    """Greedy actions; reset() begins an episode. A nested observation is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.arrays = dict(np.load(pathlib.Path(folder) / "policy.npz"))
        self.recurrent = runpy.run_path(str(pathlib.Path(folder) / "recurrent_step.py"))
        self.recurrent_layers = self.recurrent["read_layers"](self.arrays)
        self.reset()

    def reset(self):
        self.states = self.recurrent["zero_states"](self.recurrent_layers)

    def action(self, observation):
        arrays, layer, finite = self.arrays, 0, np.asarray_chkfinite  # no action for NaN
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        x = np.concatenate([np.ravel(finite(parts[name])) for name in arrays["parts"]], dtype="f4")
        x, self.states = self.recurrent["run_layers"](self.recurrent_layers, x, self.states)
        while f"hidden_kernel_{layer}" in arrays:
            x = np.maximum(x @ arrays[f"hidden_kernel_{layer}"] + arrays[f"hidden_bias_{layer}"], 0)
            layer += 1
        mean = np.tanh(x @ arrays["mean_kernel"] + arrays["mean_bias"])
        return np.clip(arrays["center"] + arrays["magnitude"] * mean, arrays["low"], arrays["high"])
