"""A built-in actor as an ONNX model."""

import pathlib
from collections.abc import Mapping

import numpy as np

from tfagents_system.core.errors import ConfigError

OPSET = 13  # as old as its operations allow, so that old runtimes read it


def write_onnx(
    arrays: Mapping[str, np.ndarray], shape: tuple[int, ...], file: pathlib.Path
) -> None:
    """Writes the model of the actor with these `NumpyActor.arrays()`.

    Its inputs are `observation` (`shape`, float32) and, of an LSTM, `h` and `c` [units], zeros at
    the begin of an episode; its outputs `action` [A], `next_h` and `next_c`.

    Raises:
      ConfigError: If the package onnx is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise ConfigError(
            f"onnx cannot be imported ({error}). Install it: ./setup.sh --with onnx"
        ) from error
    from onnx import TensorProto, helper, numpy_helper

    def vector(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = _Nodes(helper.make_node)
    x = nodes.add("Reshape", "observation", "one_row")
    layer = 0
    while f"hidden_kernel_{layer}" in arrays:
        x = nodes.add("Gemm", x, f"hidden_kernel_{layer}", f"hidden_bias_{layer}")
        x = nodes.add("Relu", x)
        layer += 1
    inputs, outputs = [vector("observation", shape)], [vector("action", arrays["center"].shape)]
    if "lstm_kernel" in arrays:
        x = _add_lstm(nodes, x)
        units = arrays["lstm_recurrent_kernel"].shape[:1]
        inputs += [vector("h", units), vector("c", units)]
        outputs += [vector("next_h", units), vector("next_c", units)]
    x = nodes.add("Tanh", nodes.add("Gemm", x, "mean_kernel", "mean_bias"))
    x = nodes.add("Add", nodes.add("Mul", x, "magnitude"), "center")
    x = nodes.add("Min", nodes.add("Max", x, "low"), "high")
    nodes.add("Reshape", x, "flat", output="action")

    constants = dict(arrays, one_row=np.array([1, -1]), flat=np.array([-1]))
    graph = helper.make_graph(
        nodes.nodes, "policy", inputs, outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=7)  # of that opset's time
    onnx.checker.check_model(model, full_check=True)
    file.write_bytes(model.SerializeToString())


class _Nodes:
    """The operations of a graph, in order."""

    def __init__(self, make_node):
        """`make_node` is that of onnx.helper."""
        self._make_node = make_node
        self.nodes = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes) -> str:
        """Adds an operation with one output and returns its name."""
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self._make_node(kind, list(inputs), [output], **attributes))
        return output

    def split(self, value: str, outputs: list[str]) -> list[str]:
        """Adds an operation that splits `value` [1, n] evenly and returns the outputs' names."""
        self.nodes.append(self._make_node("Split", [value], outputs, axis=1))
        return outputs


def _add_lstm(nodes: _Nodes, x: str) -> str:
    """Adds a step of Keras' LSTM, whose gates are input, forget, cell and output."""
    h, c = nodes.add("Reshape", "h", "one_row"), nodes.add("Reshape", "c", "one_row")
    from_x = nodes.add("Gemm", x, "lstm_kernel", "lstm_bias")
    gates = nodes.add("Add", from_x, nodes.add("MatMul", h, "lstm_recurrent_kernel"))
    i, f, g, o = nodes.split(gates, ["gate_i", "gate_f", "gate_g", "gate_o"])
    i, f, o = (nodes.add("Sigmoid", gate) for gate in (i, f, o))
    kept, added = nodes.add("Mul", f, c), nodes.add("Mul", i, nodes.add("Tanh", g))
    c = nodes.add("Add", kept, added)
    h = nodes.add("Mul", o, nodes.add("Tanh", c))
    nodes.add("Reshape", h, "flat", output="next_h")
    nodes.add("Reshape", c, "flat", output="next_c")
    return h
