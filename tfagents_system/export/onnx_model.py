"""Writes a built-in actor as an ONNX model."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.action_masks import ACTION_MASK, FORBIDDEN
from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.export.onnx_encoder import add_encoder
from tfagents_system.export.onnx_nodes import Nodes
from tfagents_system.policies.numpy_layers import leaves_of

_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7}  # TensorProto's
OPSET = 13  # the oldest with these operations, so that old runtimes can read it

_Arrays = dict[str, NDArray[Any]]


def write_onnx(
    arrays: _Arrays, parts: Mapping[str, tuple[int, ...]], is_masked: bool, file: pathlib.Path
) -> None:
    """Writes the model of the actor with these `NumpyActor.arrays()`.

    Its inputs are the `parts` of an observation, float32 of these shapes, and, for recurrent layer
    k, `h_<k>` and, for an LSTM, `c_<k>` [units], zeros at the start of an episode; with
    `is_masked` also `action_mask`, float32 [N], 1 for each integer that is allowed. Its outputs are
    `action` [A], or integers [] or [K], or for a nest `action_<leaf>`; `next_h_<k>` and
    `next_c_<k>`.

    Raises:
      ConfigError: If the package onnx is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise ConfigError(
            f"onnx cannot be imported ({error}). Install it: {how_to_install('onnx')}"
        ) from error
    from onnx import helper, numpy_helper

    def vector(name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
        return helper.make_tensor_value_info(name, _TYPES[dtype], shape)

    nodes = Nodes(helper.make_node)
    x = nodes.add("Concat", *[nodes.add("Reshape", part, "one_row") for part in parts], axis=1)
    if "observation_mean" in arrays:
        x = nodes.add("Mul", nodes.add("Sub", x, "observation_mean"), "observation_scale")
        x = nodes.add("Min", nodes.add("Max", x, "observation_low"), "observation_high")
    inputs = [vector(part, shape) for part, shape in parts.items()]
    states_after = []
    constants = dict(
        arrays, one_row=np.array([1, -1]), flat=np.array([-1]), one=np.array([1], np.float32)
    )
    if "encoder_steps" in arrays:
        x = add_encoder(nodes, x, constants)
    for kind, index in _recurrent_layers(arrays):
        units = arrays[f"{kind}_recurrent_kernel_{index}"].shape[:1]
        x, states = _STEPS[kind](nodes, x, index, constants)
        inputs += [vector(name, units) for name in states]
        states_after += [vector(f"next_{name}", units) for name in states]
    layer = 0
    while f"hidden_kernel_{layer}" in arrays:
        x = nodes.add("Gemm", x, f"hidden_kernel_{layer}", f"hidden_bias_{layer}")
        x = nodes.add("Relu", x)
        layer += 1
    outputs = []
    leaves = leaves_of(arrays) or {"": arrays}
    penalties: dict[str, str] = {}
    if is_masked:
        penalties, num_integers = _add_penalties(nodes, leaves, constants)
        inputs.append(vector(ACTION_MASK, [num_integers]))
    for leaf, own in leaves.items():
        prefix, output = (f"{leaf}.", f"action_{leaf}") if leaf else ("", "action")
        if "start" in own:
            _add_choice(nodes, x, constants, prefix, output, penalties.get(leaf))
        else:
            _add_squashed(nodes, x, constants, prefix, output)
        example = own["start" if "start" in own else "center"]
        outputs.append(vector(output, example.shape, example.dtype.name))

    used = {name for node in nodes.nodes for name in node.input}
    graph = helper.make_graph(
        nodes.nodes, "policy", inputs, outputs + states_after,
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )  # fmt: skip
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=7)  # as old as that opset
    onnx.checker.check_model(model, full_check=True)
    file.write_bytes(model.SerializeToString())


def _add_squashed(nodes: Nodes, x: str, constants: _Arrays, prefix: str, output: str) -> None:
    """Adds center + magnitude tanh(mean), within the bounds; `prefix` is that of the constants."""
    x = nodes.add("Tanh", nodes.add("Gemm", x, f"{prefix}mean_kernel", f"{prefix}mean_bias"))
    x = nodes.add("Add", nodes.add("Mul", x, f"{prefix}magnitude"), f"{prefix}center")
    x = nodes.add("Min", nodes.add("Max", x, f"{prefix}low"), f"{prefix}high")
    nodes.add("Reshape", x, "flat", output=output)


def _add_penalties(
    nodes: Nodes, leaves: Mapping[str, _Arrays], constants: _Arrays
) -> tuple[dict[str, str], int]:
    """Adds what a mask adds to the logits of each leaf; returns it by leaf, and the mask's size."""
    sizes = {leaf: int(own["sizes"].sum()) for leaf, own in leaves.items() if "sizes" in own}
    constants |= {"forbidden": np.array([FORBIDDEN], np.float32),
                  "mask_sizes": np.array(list(sizes.values()))}  # fmt: skip
    row = nodes.add("Sub", "one", nodes.add("Reshape", ACTION_MASK, "one_row"))
    row = nodes.add("Mul", row, "forbidden")
    names = [f"penalty_{index}" for index in range(len(sizes))]
    parts = nodes.split(row, names, "mask_sizes") if len(names) > 1 else [row]
    return dict(zip(sizes, parts, strict=True)), sum(sizes.values())


def _add_choice(
    nodes: Nodes, x: str, constants: _Arrays, prefix: str, output: str, penalty: str | None
) -> None:
    """Adds start + the number of the largest logit in each branch; see `_add_squashed`."""
    sizes, start = constants[f"{prefix}sizes"], constants[f"{prefix}start"]
    constants[f"{prefix}action_shape"] = np.array(start.shape, np.int64)
    logits = nodes.add("Gemm", x, f"{prefix}logits_kernel", f"{prefix}logits_bias")
    if penalty:
        logits = nodes.add("Add", logits, penalty)
    names = [f"{prefix}branch_{index}" for index in range(len(sizes))]
    branches = nodes.split(logits, names, f"{prefix}sizes") if len(names) > 1 else [logits]
    best = [nodes.add("ArgMax", branch, axis=1, keepdims=0) for branch in branches]
    numbers = nodes.add("Concat", *best, axis=0) if len(best) > 1 else best[0]
    numbers = nodes.add("Reshape", numbers, f"{prefix}action_shape")
    constants[f"{prefix}start"] = start.astype(np.int64)
    total = nodes.add("Add", numbers, f"{prefix}start")
    nodes.add("Cast", total, output=output, to=_TYPES[start.dtype.name])


def _recurrent_layers(arrays: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields (kind, index) of each layer; see `read_layers`."""
    for index in itertools.count():
        kinds = [kind for kind in _STEPS if f"{kind}_kernel_{index}" in arrays]
        if not kinds:
            return
        yield kinds[0], index


def _add_lstm(nodes: Nodes, x: str, index: int, constants: _Arrays) -> tuple[str, list[str]]:
    """Adds a step as `numpy_layers` has it; returns its output and the names of its states."""
    names = [f"h_{index}", f"c_{index}"]
    h, c = (nodes.add("Reshape", name, "one_row") for name in names)
    from_x = nodes.add("Gemm", x, f"lstm_kernel_{index}", f"lstm_bias_{index}")
    gates = nodes.add("Add", from_x, nodes.add("MatMul", h, f"lstm_recurrent_kernel_{index}"))
    i, f, g, o = nodes.split(gates, [f"lstm_{gate}_{index}" for gate in "ifgo"])
    i, f, o = (nodes.add("Sigmoid", gate) for gate in (i, f, o))
    kept, added = nodes.add("Mul", f, c), nodes.add("Mul", i, nodes.add("Tanh", g))
    c = nodes.add("Add", kept, added)
    h = nodes.add("Mul", o, nodes.add("Tanh", c))
    for name, value in zip(names, (h, c), strict=True):
        nodes.add("Reshape", value, "flat", output=f"next_{name}")
    return h, names


def _add_gru(nodes: Nodes, x: str, index: int, constants: _Arrays) -> tuple[str, list[str]]:
    """See `_add_lstm`; adds the halves of the recurrent kernel to `constants`."""
    name, kernel = f"h_{index}", f"gru_recurrent_kernel_{index}"
    whole = constants.pop(kernel)
    num_gated = 2 * len(whole)
    of_gates, of_candidate = f"{kernel}_of_gates", f"{kernel}_of_candidate"
    constants |= {of_gates: whole[:, :num_gated], of_candidate: whole[:, num_gated:]}
    h = nodes.add("Reshape", name, "one_row")
    from_x = nodes.add("Gemm", x, f"gru_kernel_{index}", f"gru_bias_{index}")
    x_z, x_r, x_n = nodes.split(from_x, [f"gru_x_{gate}_{index}" for gate in "zrn"])
    from_h = nodes.add("MatMul", h, of_gates)
    h_z, h_r = nodes.split(from_h, [f"gru_h_{gate}_{index}" for gate in "zr"])
    z = nodes.add("Sigmoid", nodes.add("Add", x_z, h_z))
    r = nodes.add("Sigmoid", nodes.add("Add", x_r, h_r))
    from_reset = nodes.add("MatMul", nodes.add("Mul", r, h), of_candidate)
    candidate = nodes.add("Tanh", nodes.add("Add", x_n, from_reset))
    kept, rest = nodes.add("Mul", z, h), nodes.add("Sub", "one", z)
    h = nodes.add("Add", kept, nodes.add("Mul", rest, candidate))
    nodes.add("Reshape", h, "flat", output=f"next_{name}")
    return h, [name]


def _add_rnn(nodes: Nodes, x: str, index: int, constants: _Arrays) -> tuple[str, list[str]]:
    """See `_add_lstm`."""
    name = f"h_{index}"
    from_x = nodes.add("Gemm", x, f"rnn_kernel_{index}", f"rnn_bias_{index}")
    h = nodes.add("Reshape", name, "one_row")
    from_h = nodes.add("MatMul", h, f"rnn_recurrent_kernel_{index}")
    h = nodes.add("Tanh", nodes.add("Add", from_x, from_h))
    nodes.add("Reshape", h, "flat", output=f"next_{name}")
    return h, [name]


_STEPS = {"lstm": _add_lstm, "gru": _add_gru, "rnn": _add_rnn}
