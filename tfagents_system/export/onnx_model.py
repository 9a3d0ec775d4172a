"""Writes a built-in actor as an ONNX model."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.export.onnx_layers import (
    add_choices,
    add_layers,
    add_penalties,
    add_squashed,
    mask_sizes,
    shared_constants,
    state_sizes,
)
from tfagents_system.export.onnx_nodes import Given, Nodes, edge
from tfagents_system.export.tensorflow_models import free_names
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
    `next_c_<k>`. The metadata `inputs` has the input of each part and of the mask:
    `observation_<name>`, if its name is that of a state or an output.

    Raises:
      ConfigError: If the package onnx is missing.
    """
    helper = require_onnx().helper

    def vector(name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
        return helper.make_tensor_value_info(name, _TYPES[dtype], shape)

    nodes = Nodes(helper.make_node)
    constants = arrays | shared_constants()
    sizes = state_sizes(arrays)
    leaves = leaves_of(arrays) or {"": arrays}
    actions = {leaf: f"action_{leaf}" if leaf else "action" for leaf in leaves}
    taken = [*sizes, *(f"next_{name}" for name in sizes), *actions.values()]
    masks = [ACTION_MASK] if is_masked else []
    names = free_names({part: part for part in [*parts, *masks]}, taken)
    inputs = [vector(names[part], shape) for part, shape in parts.items()]

    def row(name: str) -> str:
        return nodes.add("Reshape", Given(name), "one_row")

    x = nodes.add("Concat", *[row(names[part]) for part in parts], axis=1)
    inputs += [vector(name, [size]) for name, size in sizes.items()]
    states = {name: row(name) for name in sizes}
    x, next_states = add_layers(nodes, x, states, constants)
    outputs = []
    penalties: dict[str, str] = {}
    if is_masked:
        mask = names[ACTION_MASK]
        penalties = add_penalties(nodes, row(mask), leaves, constants)
        inputs.append(vector(mask, [sum(mask_sizes(leaves).values())]))
    for leaf, own in leaves.items():
        prefix, output = f"{leaf}." if leaf else "", actions[leaf]
        if "start" in own:
            chosen = add_choices(nodes, x, constants, prefix, penalties.get(leaf))
            _add_integers(nodes, chosen, constants, prefix, output)
        else:
            nodes.add("Reshape", add_squashed(nodes, x, prefix), "flat", output=output)
        example = own["start" if "start" in own else "center"]
        outputs.append(vector(output, example.shape, example.dtype.name))
    for name, value in next_states.items():
        nodes.add("Reshape", value, "flat", output=f"next_{name}")
        outputs.append(vector(f"next_{name}", [sizes[name]]))
    # A version of the file as old as that opset.
    metadata = {"inputs": json.dumps(names)}  # for the runner
    save(nodes, inputs, outputs, constants, file, OPSET, ir_version=7, metadata=metadata)


def _add_integers(nodes: Nodes, chosen: str, constants: _Arrays, prefix: str, output: str) -> None:
    """Adds the first integer of each branch to the indices [1, K] of the chosen ones."""
    start = constants[f"{prefix}start"]
    constants[f"{prefix}action_shape"] = np.array(start.shape, np.int64)
    numbers = nodes.add("Reshape", chosen, f"{prefix}action_shape")
    constants[f"{prefix}start"] = start.astype(np.int64)
    total = nodes.add("Add", numbers, f"{prefix}start")
    nodes.add("Cast", total, output=output, to=_TYPES[start.dtype.name])


def require_onnx() -> Any:
    """Returns the package onnx.

    Raises:
      ConfigError: If it is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise ConfigError(
            f"onnx cannot be imported ({error}). Install it: {how_to_install('onnx')}"
        ) from error
    return onnx


def save(
    nodes: Nodes,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, NDArray[Any]],
    file: pathlib.Path,
    opset: int,
    ir_version: int,
    metadata: Mapping[str, str],
) -> None:
    """Checks and writes a model with only the constants that its operations use."""
    onnx = require_onnx()
    used = {name for node in nodes.nodes for name in node.input}
    as_tensor = onnx.numpy_helper.from_array
    named = {edge(name): value for name, value in constants.items()}
    initializers = [as_tensor(value, name) for name, value in named.items() if name in used]
    graph = onnx.helper.make_graph(nodes.nodes, "policy", inputs, outputs, initializers)
    operations = onnx.helper.make_opsetid("", opset)
    model = onnx.helper.make_model(graph, opset_imports=[operations], ir_version=ir_version)
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    file.write_bytes(model.SerializeToString())
