"""Acts with the policy in policy.onnx as Unity does; needs onnxruntime."""

import json
import pathlib

import numpy as np
import onnxruntime


class Policy:
    """Greedy actions; reset() begins an episode. A nest is a dict of its parts."""

    def __init__(self, folder=pathlib.Path(__file__).parent):
        self.session = onnxruntime.InferenceSession(str(pathlib.Path(folder) / "policy.onnx"))
        self.facts = json.loads(self.session.get_modelmeta().custom_metadata_map["policy"])
        self.reset()

    def reset(self):  # what is not observed is 1, such as allowed actions
        shapes = {part.name: [1, *part.shape[1:]] for part in self.session.get_inputs()}
        self.rest = {n: np.full(s, n != "recurrent_in", "f4") for n, s in shapes.items()}

    def action(self, observation):
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        seen = dict(self.rest)
        for name, key, size, axes in [each for each in self.facts["inputs"] if each[0] in parts]:
            seen[key] = np.asarray_chkfinite([parts[name]], "f4").transpose(axes) / np.float32(size)
        outputs = dict(zip(self.facts["outputs"], self.session.run(None, seen)))
        self.rest = {n: outputs.get(n.replace("in", "out"), x) for n, x in self.rest.items()}
        actions = {k: outputs[n].reshape(s).astype(t) for k, n, s, t in self.facts["actions"]}
        return actions.get("", actions)
