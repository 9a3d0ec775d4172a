"""Collects the operations of an ONNX graph."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

Constants = dict[str, NDArray[Any]]  # by name
FLOAT = 1  # TensorProto's number of float32


class Given(str):
    """The name of an input of a graph; a value inside may have the same name."""

    __slots__ = ()


def edge(name: str) -> str:
    """Returns the name of a value in the file, where all values share one namespace."""
    return str(name) if isinstance(name, Given) else f"net:{name}"  # no input has a colon


class Nodes:
    """The operations of a graph, in order."""

    def __init__(self, make_node: Callable[..., Any], sizes_of: Mapping[str, Any] | None = None):
        """Begins an empty graph.

        Args:
          make_node: onnx.helper.make_node.
          sizes_of: The constants, for opsets before 13, which keep the sizes of a split in the
            operation itself.
        """
        self._make_node, self._sizes_of = make_node, sizes_of
        self.nodes: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds an operation; returns the name of its value: `output` for an output of the graph."""
        name = f"{kind}_{len(self.nodes)}"
        self._append(kind, inputs, [output or edge(name)], **attributes)
        return output or name

    def split(self, value: str, outputs: list[str], sizes: str | None = None) -> list[str]:
        """Adds an operation that splits `value` [B, n], and returns the outputs' names.

        `sizes` names a constant with the length of each output; None splits evenly.
        """
        if sizes is not None and self._sizes_of is not None:
            lengths = self._sizes_of[sizes].tolist()
            self._append("Split", [value], map(edge, outputs), axis=1, split=lengths)
            return outputs
        inputs = [value] if sizes is None else [value, sizes]
        self._append("Split", inputs, map(edge, outputs), axis=1)
        return outputs

    def _append(
        self, kind: str, inputs: Iterable[str], outputs: Iterable[str], **attributes: Any
    ) -> None:
        node = self._make_node(kind, list(map(edge, inputs)), list(outputs), **attributes)
        self.nodes.append(node)


def constant(constants: Constants, value: NDArray[Any]) -> str:
    """Adds a constant and returns its name."""
    name = f"constant_{len(constants)}"
    constants[name] = value
    return name
