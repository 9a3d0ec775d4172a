"""Collects the operations of an ONNX graph."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Constants = dict[str, NDArray[Any]]  # by name
FLOAT = 1  # TensorProto's number of float32


class Nodes:
    """The operations of a graph, in order."""

    def __init__(self, make_node: Callable[..., Any]):
        """`make_node` is onnx.helper.make_node."""
        self._make_node = make_node
        self.nodes: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds an operation with one output and returns its name."""
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self._make_node(kind, list(inputs), [output], **attributes))
        return output

    def split(self, value: str, outputs: list[str], sizes: str | None = None) -> list[str]:
        """Adds an operation that splits `value` [1, n], and returns the outputs' names.

        `sizes` names a constant with the length of each output; None splits evenly.
        """
        inputs = [value] if sizes is None else [value, sizes]
        self.nodes.append(self._make_node("Split", inputs, outputs, axis=1))
        return outputs


def constant(constants: Constants, value: NDArray[Any]) -> str:
    """Adds a constant and returns its name."""
    name = f"constant_{len(constants)}"
    constants[name] = value
    return name
