"""Adds the convolutions of images to an ONNX graph, by the steps of `policies/encoder_steps.py`."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfagents_system.export.onnx_nodes import Nodes

_Arrays = dict[str, NDArray[Any]]
# Axes of an image [1, ...] as ONNX has them, [1, C, H, W].
_TO_CHANNELS_FIRST = {"HWC": [0, 3, 1, 2], "CHW": [0, 1, 2, 3], "HW": [0, 1, 2, 3]}
FLOAT = 1  # TensorProto's number of float32
_PLAIN = {"relu": "Relu", "elu": "Elu", "tanh": "Tanh"}


def add_encoder(nodes: Nodes, x: str, constants: _Arrays) -> str:
    """Adds the steps from an observation `x` [1, n] to features [1, m]; returns their name.

    Adds its constants to `constants`, which has the steps and their weights.
    """
    steps = [step.split() for step in constants.pop("encoder_steps").tolist()]
    sizes = [_size(*step) for step in steps if step[0] in ("part", "image")]
    names = [f"part_{index}" for index in range(len(sizes))]
    constants["part_sizes"] = np.array(sizes)
    inputs = iter(nodes.split(x, names, "part_sizes") if len(names) > 1 else [x])
    parts: list[str] = []
    kept = ""
    for kind, *words in steps:
        if kind == "part":
            parts.append(next(inputs))
        elif kind == "image":
            parts.append(_add_image(nodes, next(inputs), constants, *words))
        elif kind == "keep":
            kept = parts[-1]
        elif kind == "add":
            parts[-1] = nodes.add("Add", kept, parts[-1])
        else:
            parts[-1] = _add_step(nodes, parts[-1], constants, kind, *words)
    return nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _size(kind: str, *words: str) -> int:
    """Returns how many numbers of an observation are a part or an image."""
    return int(words[0]) if kind == "part" else math.prod(map(int, words[:-2]))


def _add_image(nodes: Nodes, x: str, constants: _Arrays, *words: str) -> str:
    """Adds the reshaping of numbers [1, n] to an image [1, C, H, W]."""
    *sides, layout, divisor = words
    shape = [1, *([1] if layout == "HW" else []), *map(int, sides)]
    x = nodes.add("Reshape", x, _constant(constants, np.array(shape)))
    x = nodes.add("Transpose", x, perm=_TO_CHANNELS_FIRST[layout])
    if divisor == "1":
        return x
    return nodes.add("Div", x, _constant(constants, np.array([divisor], np.float32)))


def _add_step(nodes: Nodes, x: str, constants: _Arrays, kind: str, *words: str) -> str:
    if kind in _PLAIN:
        return nodes.add(_PLAIN[kind], x)
    if kind == "leaky_relu":
        return nodes.add("LeakyRelu", x, alpha=float(words[0]))
    if kind == "flatten":
        return nodes.add("Reshape", nodes.add("Transpose", x, perm=[0, 2, 3, 1]), "one_row")
    if kind == "max_pool":
        size, stride = ([int(word)] * 2 for word in words)
        return nodes.add("MaxPool", x, kernel_shape=size, strides=stride, auto_pad="SAME_UPPER")
    kernel, bias = (f"encoder_{name}_{words[-1]}" for name in ("kernel", "bias"))
    if kind == "dense":
        return nodes.add("Gemm", x, kernel, bias)
    if kind == "one_hot":
        picked = nodes.add("Gather", x, kernel, axis=1)
        return nodes.add("Cast", nodes.add("Equal", picked, bias), to=FLOAT)
    if kind == "conv":
        stride, padding = [int(words[0])] * 2, words[1]
        constants[kernel] = np.transpose(constants[kernel], [3, 2, 0, 1]).copy()
        pad = "SAME_UPPER" if padding == "same" else "VALID"
        return nodes.add("Conv", x, kernel, bias, strides=stride, auto_pad=pad)
    assert kind == "layer_norm", kind
    centered = nodes.add("Sub", x, nodes.add("ReduceMean", x, axes=[1]))
    variance = nodes.add("ReduceMean", nodes.add("Mul", centered, centered), axes=[1])
    epsilon = _constant(constants, np.array([words[0]], np.float32))
    deviation = nodes.add("Sqrt", nodes.add("Add", variance, epsilon))
    scaled = nodes.add("Mul", nodes.add("Div", centered, deviation), kernel)
    return nodes.add("Add", scaled, bias)


def _constant(constants: _Arrays, value: NDArray[Any]) -> str:
    name = f"constant_{len(constants)}"
    constants[name] = value
    return name
