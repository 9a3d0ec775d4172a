"""Adds the layers of a built-in actor to an ONNX graph, for B observations at once."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tfagents_system.core.action_masks import FORBIDDEN
from tfagents_system.export.onnx_encoder import add_encoder
from tfagents_system.export.onnx_goals import add_generated
from tfagents_system.export.onnx_nodes import Constants, Nodes


def shared_constants() -> Constants:
    """Returns the constants that all graphs need."""
    return {
        "one_row": np.array([1, -1]),  # a shape, of an array without batch axis
        "rows": np.array([0, -1]),  # a shape, of one with batch axis
        "flat": np.array([-1]),  # a shape
        "one": np.array([1], np.float32),
        "forbidden": np.array([FORBIDDEN], np.float32),
        "large": np.array([1e9], np.float32),
    }


def state_sizes(arrays: Mapping[str, Any]) -> dict[str, int]:
    """Returns the sizes of the states of an actor by name: `h_<k>` and, of an LSTM, `c_<k>`."""
    sizes = {}
    for kind, index in _recurrent_layers(arrays):
        for part in _STATES[kind]:
            sizes[f"{part}_{index}"] = len(arrays[f"{kind}_recurrent_kernel_{index}"])
    return sizes


def add_layers(
    nodes: Nodes, x: str, states: Mapping[str, str], constants: Constants
) -> tuple[str, dict[str, str]]:
    """Adds all layers but the head.

    Args:
      nodes: Gets the operations.
      x: Observations [B, n].
      states: [B, units] each, by the names of `state_sizes`.
      constants: The actor's arrays and those of `shared_constants`; more are added.

    Returns:
      (features [B, m], next states by name).
    """
    if "observation_mean" in constants:
        x = nodes.add("Mul", nodes.add("Sub", x, "observation_mean"), "observation_scale")
        x = nodes.add("Min", nodes.add("Max", x, "observation_low"), "observation_high")
    goals = add_encoder(nodes, x, constants, "goal_steps") if "goal_steps" in constants else None
    if "encoder_steps" in constants:
        x = add_encoder(nodes, x, constants)
    next_states: dict[str, str] = {}
    for kind, index in list(_recurrent_layers(constants)):
        names = [f"{part}_{index}" for part in _STATES[kind]]
        results = _STEPS[kind](nodes, x, index, constants, *(states[name] for name in names))
        next_states |= dict(zip(names, results, strict=True))
        x = results[0]
    if goals and constants["are_goals_beside"]:
        x = nodes.add("Concat", x, goals, axis=1)
    layer = 0
    while f"hidden_kernel_{layer}" in constants:
        x = nodes.add("Gemm", x, f"hidden_kernel_{layer}", f"hidden_bias_{layer}")
        x = nodes.add("Relu", x)
        layer += 1
    if goals:
        x = add_generated(nodes, x, goals, constants)
    return x, next_states


def add_squashed(nodes: Nodes, x: str, prefix: str) -> str:
    """Adds center + magnitude tanh(mean), within the bounds; returns its name, [B, A].

    `prefix` begins the names of the constants.
    """
    x = nodes.add("Tanh", nodes.add("Gemm", x, f"{prefix}mean_kernel", f"{prefix}mean_bias"))
    x = nodes.add("Add", nodes.add("Mul", x, f"{prefix}magnitude"), f"{prefix}center")
    return nodes.add("Min", nodes.add("Max", x, f"{prefix}low"), f"{prefix}high")


def mask_sizes(leaves: Mapping[str, Constants]) -> dict[str, int]:
    """Returns the number of integers of each leaf of an action that has any."""
    return {leaf: int(own["sizes"].sum()) for leaf, own in leaves.items() if "sizes" in own}


def add_penalties(
    nodes: Nodes, mask: str, leaves: Mapping[str, Constants], constants: Constants
) -> dict[str, str]:
    """Adds the penalties of a mask [B, N] for the logits of each leaf; returns their names by leaf.

    An integer is forbidden if its entry is 0, and allowed by any other, such as 255.
    """
    sizes = mask_sizes(leaves)
    constants["mask_sizes"] = np.array(list(sizes.values()))
    # 0 or 1, without comparisons of floats, which Unity's opset does not have.
    allowed = nodes.add("Min", nodes.add("Mul", nodes.add("Abs", mask), "large"), "one")
    row = nodes.add("Mul", nodes.add("Sub", "one", allowed), "forbidden")
    names = [f"penalty_{index}" for index in range(len(sizes))]
    parts = nodes.split(row, names, "mask_sizes") if len(names) > 1 else [row]
    return dict(zip(sizes, parts, strict=True))


def add_choices(
    nodes: Nodes, x: str, constants: Constants, prefix: str, penalty: str | None
) -> str:
    """Adds the index of the largest logit in each branch, int64 [B, K]; see `add_squashed`."""
    logits = nodes.add("Gemm", x, f"{prefix}logits_kernel", f"{prefix}logits_bias")
    if penalty:
        logits = nodes.add("Add", logits, penalty)
    sizes = f"{prefix}sizes"
    names = [f"{prefix}branch_{index}" for index in range(len(constants[sizes]))]
    branches = nodes.split(logits, names, sizes) if len(names) > 1 else [logits]
    best = [nodes.add("ArgMax", branch, axis=1, keepdims=1) for branch in branches]
    return nodes.add("Concat", *best, axis=1) if len(best) > 1 else best[0]


def _recurrent_layers(arrays: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields (kind, index) of each layer; see `read_layers`."""
    for index in itertools.count():
        kinds = [kind for kind in _STEPS if f"{kind}_kernel_{index}" in arrays]
        if not kinds:
            return
        yield kinds[0], index


def _add_lstm(nodes: Nodes, x: str, index: int, constants: Constants, h: str, c: str) -> list[str]:
    """Adds a step as `numpy_layers` has it; returns its next states, of which the first is h."""
    from_x = nodes.add("Gemm", x, f"lstm_kernel_{index}", f"lstm_bias_{index}")
    gates = nodes.add("Add", from_x, nodes.add("MatMul", h, f"lstm_recurrent_kernel_{index}"))
    i, f, g, o = nodes.split(gates, [f"lstm_{gate}_{index}" for gate in "ifgo"])
    i, f, o = (nodes.add("Sigmoid", gate) for gate in (i, f, o))
    kept, added = nodes.add("Mul", f, c), nodes.add("Mul", i, nodes.add("Tanh", g))
    c = nodes.add("Add", kept, added)
    return [nodes.add("Mul", o, nodes.add("Tanh", c)), c]


def _add_gru(nodes: Nodes, x: str, index: int, constants: Constants, h: str) -> list[str]:
    """See `_add_lstm`; adds the halves of the recurrent kernel to `constants`."""
    kernel = f"gru_recurrent_kernel_{index}"
    whole = constants.pop(kernel)
    num_gated = 2 * len(whole)
    of_gates, of_candidate = f"{kernel}_of_gates", f"{kernel}_of_candidate"
    constants |= {of_gates: whole[:, :num_gated], of_candidate: whole[:, num_gated:]}
    from_x = nodes.add("Gemm", x, f"gru_kernel_{index}", f"gru_bias_{index}")
    x_z, x_r, x_n = nodes.split(from_x, [f"gru_x_{gate}_{index}" for gate in "zrn"])
    from_h = nodes.add("MatMul", h, of_gates)
    h_z, h_r = nodes.split(from_h, [f"gru_h_{gate}_{index}" for gate in "zr"])
    z = nodes.add("Sigmoid", nodes.add("Add", x_z, h_z))
    r = nodes.add("Sigmoid", nodes.add("Add", x_r, h_r))
    from_reset = nodes.add("MatMul", nodes.add("Mul", r, h), of_candidate)
    candidate = nodes.add("Tanh", nodes.add("Add", x_n, from_reset))
    kept, rest = nodes.add("Mul", z, h), nodes.add("Sub", "one", z)
    return [nodes.add("Add", kept, nodes.add("Mul", rest, candidate))]


def _add_rnn(nodes: Nodes, x: str, index: int, constants: Constants, h: str) -> list[str]:
    """See `_add_lstm`."""
    from_x = nodes.add("Gemm", x, f"rnn_kernel_{index}", f"rnn_bias_{index}")
    from_h = nodes.add("MatMul", h, f"rnn_recurrent_kernel_{index}")
    return [nodes.add("Tanh", nodes.add("Add", from_x, from_h))]


_STEPS: Mapping[str, Callable[..., list[str]]] = {
    "lstm": _add_lstm,
    "gru": _add_gru,
    "rnn": _add_rnn,
}
_STATES = {"lstm": ("h", "c"), "gru": ("h",), "rnn": ("h",)}
