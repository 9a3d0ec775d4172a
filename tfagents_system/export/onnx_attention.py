"""Adds the attention to lists of entities to an ONNX graph."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tfagents_system.export.onnx_nodes import FLOAT, Constants, Nodes, constant


def add_attention(
    nodes: Nodes,
    parts: Sequence[str],
    lists: Sequence[tuple[str, int]],
    constants: Constants,
    words: Sequence[str],
) -> str:
    """Adds the step `attention` of `policies/encoder_steps.py`; returns its features' name [B, m].

    Args:
      nodes: The graph.
      parts: Features of everything else, [B, n] each.
      lists: Name and most entities n of each list [B, n, k].
      constants: The graph's constants, with the weights; more are added.
      words: The words of the step after its name.
    """
    num_heads, least, epsilon, first = words
    indices = itertools.count(int(first))

    def dense(x: str) -> str:
        index = next(indices)
        return nodes.add(
            "Add", nodes.add("MatMul", x, f"encoder_kernel_{index}"), f"encoder_bias_{index}"
        )

    def swish(x: str) -> str:
        return nodes.add("Mul", x, nodes.add("Sigmoid", x))

    def floats(*values: float) -> str:
        return constant(constants, np.array(values, np.float32))

    def standardized(x: str) -> str:
        centered = nodes.add("Sub", x, nodes.add("ReduceMean", x, axes=[2]))
        variance = nodes.add("ReduceMean", nodes.add("Mul", centered, centered), axes=[2])
        return nodes.add(
            "Div", centered, nodes.add("Sqrt", nodes.add("Add", variance, floats(float(epsilon))))
        )

    def joined(names: Sequence[str], axis: int) -> str:
        return nodes.add("Concat", *names, axis=axis) if len(names) > 1 else names[0]

    size = len(constants[f"encoder_bias_{first}"])
    most = sum(count for _, count in lists)
    of_self = ""
    if parts:
        one_each = constant(constants, np.array([-1, 1, size]))
        of_self = nodes.add("Reshape", swish(dense(joined(parts, 1))), one_each)
    embedded = []
    for entities, count in lists:
        if of_self:
            shape = constant(constants, np.array([1, count, size]))
            entities = nodes.add("Concat", nodes.add("Expand", of_self, shape), entities, axis=2)
        embedded.append(swish(dense(entities)))
    x = standardized(joined(embedded, 1))

    heads = constant(constants, np.array([-1, most, int(num_heads), size // int(num_heads)]))

    def by_head(x: str, axes: Sequence[int]) -> str:
        return nodes.add("Transpose", nodes.add("Reshape", x, heads), perm=axes)

    query, key, value = dense(x), dense(x), dense(x)
    scores = nodes.add("MatMul", by_head(query, [0, 2, 1, 3]), by_head(key, [0, 2, 3, 1]))
    scores = nodes.add("Div", scores, floats(math.sqrt(size)))
    squares = [nodes.add("ReduceSumSquare", each, axes=[2], keepdims=0) for each, _ in lists]
    is_absent = nodes.add("Less", joined(squares, 1), floats(float(least)))  # [B, most]
    for_all = constant(constants, np.array([-1, 1, 1, most]))  # heads and queries
    is_hidden = nodes.add("Reshape", is_absent, for_all)
    scores = nodes.add("Where", is_hidden, floats(-1e6), scores)
    scores = nodes.add("Softmax", scores, axis=3)
    attended = nodes.add("MatMul", scores, by_head(value, [0, 2, 1, 3]))
    together = constant(constants, np.array([-1, most, size]))
    attended = nodes.add("Reshape", nodes.add("Transpose", attended, perm=[0, 2, 1, 3]), together)
    x = standardized(nodes.add("Add", x, dense(attended)))

    present = nodes.add("Cast", nodes.add("Not", is_absent), to=FLOAT)
    count_present = nodes.add("ReduceSumSquare", present, axes=[1])  # its numbers are 0 or 1
    shares = nodes.add("Div", present, nodes.add("Max", count_present, floats(1.0)))
    shares = nodes.add("Reshape", shares, constant(constants, np.array([-1, 1, most])))
    mean = nodes.add("MatMul", shares, x)  # [B, 1, most] @ [B, most, size] = [B, 1, size]
    return nodes.add("Reshape", mean, "rows")
