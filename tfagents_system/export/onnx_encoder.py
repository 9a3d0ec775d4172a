"""Adds an encoder of observations to an ONNX graph, by the steps of `policies/encoder_steps.py`."""

import math

import numpy as np

from tfagents_system.export.onnx_attention import add_attention
from tfagents_system.export.onnx_nodes import FLOAT, Constants, Nodes, constant

# Axes of images [B, ...] as ONNX has them, [B, C, H, W].
_TO_CHANNELS_FIRST = {"HWC": [0, 3, 1, 2], "CHW": [0, 1, 2, 3], "HW": [0, 1, 2, 3]}
_INPUTS = ("skip", "part", "image", "entities")  # steps that take the next numbers
_PLAIN = {"relu": "Relu", "elu": "Elu", "tanh": "Tanh"}


def add_encoder(nodes: Nodes, x: str, constants: Constants, name: str = "encoder_steps") -> str:
    """Adds the steps from observations `x` [B, n] to features [B, m]; returns their name.

    Adds its constants to `constants`, which has the steps, by `name`, and their weights.
    """
    steps = [step.split() for step in constants[name].tolist()]
    sizes = [_size(*step) for step in steps if step[0] in _INPUTS]
    names = [f"part_{index}_of_{name}" for index in range(len(sizes))]
    part_sizes = constant(constants, np.array(sizes))
    inputs = iter(nodes.split(x, names, part_sizes) if len(names) > 1 else [x])
    parts: list[str] = []
    lists: list[tuple[str, int]] = []
    kept = ""
    for kind, *words in steps:
        if kind == "skip":
            next(inputs)
        elif kind == "part":
            parts.append(next(inputs))
        elif kind == "image":
            parts.append(_add_image(nodes, next(inputs), constants, *words))
        elif kind == "entities":
            shape = constant(constants, np.array([-1, *map(int, words)]))
            lists.append((nodes.add("Reshape", next(inputs), shape), int(words[0])))
        elif kind == "attention":
            parts.append(add_attention(nodes, parts, lists, constants, words))
        elif kind == "keep":
            kept = parts[-1]
        elif kind == "add":
            parts[-1] = nodes.add("Add", kept, parts[-1])
        else:
            parts[-1] = _add_step(nodes, parts[-1], constants, kind, *words)
    return nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _size(kind: str, *words: str) -> int:
    """Returns the size of a part, an image or a list of entities in an observation."""
    return math.prod(map(int, words[:-2] if kind == "image" else words))


def _add_image(nodes: Nodes, x: str, constants: Constants, *words: str) -> str:
    """Adds the reshaping of numbers [B, n] to images [B, C, H, W]."""
    *sides, layout, divisor = words
    shape = [-1, *([1] if layout == "HW" else []), *map(int, sides)]
    x = nodes.add("Reshape", x, constant(constants, np.array(shape)))
    x = nodes.add("Transpose", x, perm=_TO_CHANNELS_FIRST[layout])
    if divisor == "1":
        return x
    return nodes.add("Div", x, constant(constants, np.array([divisor], np.float32)))


def _add_step(nodes: Nodes, x: str, constants: Constants, kind: str, *words: str) -> str:
    if kind in _PLAIN:
        return nodes.add(_PLAIN[kind], x)
    if kind == "leaky_relu":
        return nodes.add("LeakyRelu", x, alpha=float(words[0]))
    if kind == "flatten":
        return nodes.add("Reshape", nodes.add("Transpose", x, perm=[0, 2, 3, 1]), "rows")
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
    epsilon = constant(constants, np.array([words[0]], np.float32))
    deviation = nodes.add("Sqrt", nodes.add("Add", variance, epsilon))
    scaled = nodes.add("Mul", nodes.add("Div", centered, deviation), kernel)
    return nodes.add("Add", scaled, bias)
