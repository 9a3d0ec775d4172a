"""Acts with the policy in policy.npz; needs NumPy alone."""

import pathlib

import numpy as np


class Policy:
    """Greedy actions, one observation at a time; each episode begins with reset()."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.arrays = dict(np.load(pathlib.Path(folder) / "policy.npz"))
        self.reset()

    def reset(self):
        self.h = self.c = np.zeros(len(self.arrays.get("lstm_recurrent_kernel", ())), np.float32)

    def action(self, observation):
        arrays, x, layer = self.arrays, np.asarray(observation, np.float32).ravel(), 0
        while f"hidden_kernel_{layer}" in arrays:
            x = np.maximum(x @ arrays[f"hidden_kernel_{layer}"] + arrays[f"hidden_bias_{layer}"], 0)
            layer += 1
        if "lstm_kernel" in arrays:
            gates = x @ arrays["lstm_kernel"] + self.h @ arrays["lstm_recurrent_kernel"]
            i, f, g, o = np.split(gates + arrays["lstm_bias"], 4)
            i, f, o = (0.5 + 0.5 * np.tanh(0.5 * gate) for gate in (i, f, o))  # the sigmoid
            self.c = f * self.c + i * np.tanh(g)
            x = self.h = o * np.tanh(self.c)
        mean = np.tanh(x @ arrays["mean_kernel"] + arrays["mean_bias"])
        return np.clip(arrays["center"] + arrays["magnitude"] * mean, arrays["low"], arrays["high"])
