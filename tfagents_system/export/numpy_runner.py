"""Acts with policy.npz, numpy_encoders.py and numpy_layers.py beside it; needs only NumPy."""

import pathlib
import runpy

import numpy as np


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.arrays = dict(np.load(pathlib.Path(folder) / "policy.npz"))
        self.encoders = runpy.run_path(str(pathlib.Path(folder) / "numpy_encoders.py"))
        self.numpy_layers = runpy.run_path(str(pathlib.Path(folder) / "numpy_layers.py"))
        self.recurrent_layers = self.numpy_layers["read_layers"](self.arrays)
        self.reset()

    def reset(self):
        self.states = self.numpy_layers["zero_states"](self.recurrent_layers)

    def action(self, observation):
        arrays, finite = self.arrays, np.asarray_chkfinite  # no action for NaN
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        mask = finite(parts["action_mask"], "f4") if arrays["is_masked"] else None
        x = np.concatenate([np.ravel(finite(parts[name], "f4")) for name in arrays["parts"]])
        x, goals = self.encoders["features"](arrays, x)
        x, self.states = self.numpy_layers["run_layers"](self.recurrent_layers, x, self.states)
        x = self.numpy_layers["hidden"](arrays, x, goals)
        return self.numpy_layers["greedy_action"](arrays, x, mask)
