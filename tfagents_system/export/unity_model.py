"""Writes a built-in actor as an ONNX model with the inputs and outputs of ML-Agents' packages."""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.categories import is_category
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
from tfagents_system.export.onnx_model import require_onnx, save
from tfagents_system.export.onnx_nodes import Given, Nodes
from tfagents_system.policies.numpy_layers import leaves_of

VERSION = 3  # of the models that com.unity.ml-agents 2.0 and later read
OPSET = 9  # of ML-Agents' own models
_FLOAT, _INT64 = 1, 7  # of TensorProto

_Arrays = dict[str, NDArray[Any]]


def write_unity(
    arrays: _Arrays, joined: Sequence[str], observation_spec: Any, file: pathlib.Path
) -> None:
    """Writes the model of the actor with these `NumpyActor.arrays()`.

    Tensors have a batch axis of any length, one row per agent. Inputs: `obs_<k>` for each part of
    the observation in the order of its spec, images as Unity gives them, [B, C, H, W] from 0 to 1;
    for integers `action_masks` [B, N], 1 for what is allowed; with memory `recurrent_in` [B, 1, M].
    Outputs: `version_number`, `memory_size`; `continuous_actions` [B, A] and `discrete_actions`
    [B, K] with the same in `deterministic_...`, because a greedy policy draws nothing, and the
    numbers of actions in `..._action_output_shape`; `recurrent_out`.

    Args:
      arrays: The actor's arrays.
      joined: Names of the parts that the actor sees, in the order in which it joins them.
      observation_spec: The environment's, without mask, including what only critics see.
      file: To write.

    Raises:
      ConfigError: If Unity has no such observations or actions, or the package onnx is missing.
    """
    helper = require_onnx().helper

    def tensor(name: str, *shape: int, dtype: int = _FLOAT) -> Any:
        return helper.make_tensor_value_info(name, dtype, ["batch", *shape])

    leaves = leaves_of(arrays) or {"": arrays}
    _check_actions(leaves)
    constants = arrays | shared_constants()
    nodes = Nodes(helper.make_node, sizes_of=constants)
    inputs: list[Any] = []
    rows: dict[str, str] = {}
    # For each input: the part of the observation, its divisor, and its axes.
    sources: list[tuple[str, str, int, Sequence[int]]] = []
    for index, (name, spec) in enumerate(_parts_in_order(observation_spec)):
        if is_category(spec):
            raise ConfigError(
                f"unity cannot hold this policy: its observation {name!r} is a category, which "
                "Unity does not have. Export to onnx instead."
            )
        shape = tuple(spec.shape)
        is_image = len(shape) == 3
        obs = f"obs_{index}"
        inputs.append(tensor(obs, *((shape[2], *shape[:2]) if is_image else shape)))
        divisor = 255 if spec.dtype == tf.uint8 else 1
        axes = (0, 3, 1, 2) if is_image else range(len(shape) + 1)
        sources.append((name, obs, divisor, list(axes)))
        if name in joined:
            rows[name] = _add_row(nodes, Given(obs), is_image, divisor, constants)
    parts = [rows[name] for name in joined]
    x = nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    sizes = state_sizes(arrays)
    memory_size = sum(sizes.values())
    states = {}
    if sizes:
        inputs.append(tensor("recurrent_in", 1, memory_size))
        constants["state_sizes"] = np.array(list(sizes.values()))
        row = nodes.add("Reshape", Given("recurrent_in"), "rows")
        names = [f"{name}_in" for name in sizes]
        split = nodes.split(row, names, "state_sizes") if len(names) > 1 else [row]
        states = dict(zip(sizes, split, strict=True))
    x, next_states = add_layers(nodes, x, states, constants)
    penalties: dict[str, str] = {}
    if num_integers := sum(mask_sizes(leaves).values()):
        inputs.append(tensor("action_masks", num_integers))
        sources.append((ACTION_MASK, "action_masks", 1, [0, 1]))
        penalties = add_penalties(nodes, Given("action_masks"), leaves, constants)

    outputs: list[Any] = []

    def add_number(name: str, values: NDArray[np.float32]) -> None:
        constants[f"{name}_value"] = values
        nodes.add("Identity", f"{name}_value", output=name)
        outputs.append(helper.make_tensor_value_info(name, _FLOAT, values.shape))

    def add_actions(kind: str, action: str, number: int, dtype: int) -> None:
        for name in (f"{kind}_actions", f"deterministic_{kind}_actions"):
            nodes.add("Identity", action, output=name)
            outputs.append(tensor(name, number, dtype=dtype))

    add_number("version_number", np.array([VERSION], np.float32))
    add_number("memory_size", np.array([memory_size], np.float32))
    actions: list[tuple[str, str, Sequence[int], str]] = []  # leaf, output, shape and dtype
    for leaf, own in leaves.items():
        prefix = f"{leaf}." if leaf else ""
        if "start" in own:
            chosen = add_choices(nodes, x, constants, prefix, penalties[leaf])
            add_actions("discrete", chosen, len(own["sizes"]), _INT64)
            branches = np.array([own["sizes"]], np.float32)
            add_number("discrete_action_output_shape", branches)
            start = own["start"]
            actions.append((leaf, "discrete_actions", start.shape, start.dtype.name))
        else:
            number = own["center"].size
            add_actions("continuous", add_squashed(nodes, x, prefix), number, _FLOAT)
            add_number("continuous_action_output_shape", np.array([number], np.float32))
            actions.append((leaf, "continuous_actions", own["center"].shape, "float32"))
    if sizes:
        parts = [next_states[name] for name in sizes]
        row = nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        constants["memory_shape"] = np.array([0, 1, memory_size])
        nodes.add("Reshape", row, "memory_shape", output="recurrent_out")
        outputs.append(tensor("recurrent_out", 1, memory_size))
    names = [output.name for output in outputs]
    facts = {"inputs": sources, "outputs": names, "actions": actions}  # for the runner
    metadata = {"policy": json.dumps(facts)}
    save(nodes, inputs, outputs, constants, file, OPSET, ir_version=4, metadata=metadata)


def _add_row(nodes: Nodes, obs: str, is_image: bool, divisor: int, constants: _Arrays) -> str:
    """Adds the conversion of an input of Unity's to numbers [B, n] as in the environment."""
    if is_image:
        obs = nodes.add("Transpose", obs, perm=[0, 2, 3, 1])
    if divisor != 1:
        constants["colors"] = np.array([divisor], np.float32)
        obs = nodes.add("Mul", obs, "colors")
    return nodes.add("Reshape", obs, "rows")


def _parts_in_order(nest: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yields the parts of an observation's spec by name, dicts in their own order."""
    if isinstance(nest, Mapping):
        for key, part in nest.items():
            yield from _parts_in_order(part, (*path, str(key)))
    elif isinstance(nest, tuple):
        for index, part in enumerate(nest):
            yield from _parts_in_order(part, (*path, str(index)))
    else:
        yield "_".join(path) or "observation", nest


def _check_actions(leaves: Mapping[str, _Arrays]) -> None:
    integers = [own for own in leaves.values() if "start" in own]
    num_continuous = len(leaves) - len(integers)
    if len(integers) > 1 or num_continuous > 1:
        raise ConfigError(
            f"unity cannot hold this policy: its action has {num_continuous} arrays of numbers and "
            f"{len(integers)} of integers; Unity has one of each. Export to onnx instead."
        )
    if integers and integers[0]["start"].any():
        raise ConfigError(
            f"unity cannot hold this policy: its integers begin with "
            f"{integers[0]['start'].tolist()}, Unity's with 0. Export to onnx instead."
        )
