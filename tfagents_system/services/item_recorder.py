"""Keeps an adder's items in memory, in place of a replay server."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class ItemRecorder:
    """Replaces the replay server's client and writer for an Adder.

    adder = Adder(recorder := ItemRecorder(), codec, layout)
    adder.add(...); adder.send(); recorder.items   # columns [rows, size] of each
    """

    def __init__(self) -> None:
        """Starts without items."""
        self.items: list[list[NDArray[Any]]] = []
        self._writer = self  # as in Reverb's writer: the one in C++

    def trajectory_writer(self, **options: Any) -> "ItemRecorder":
        """Returns the writer of an adder."""
        return self

    def ConfigureChunker(self, column: int, options: Any) -> None:
        """Does nothing, because there are no chunks."""

    def Append(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Returns the columns of a row as references to themselves."""
        return columns

    def CreateItem(
        self, table: str, priority: float, references: list[list[NDArray[Any]]], is_single: Any
    ) -> None:
        """Keeps an item; `references` are the rows of each column."""
        self.items.append([np.stack(rows) for rows in references])

    def flush(self, timeout_ms: int) -> None:
        """Does nothing, because items are kept at once."""
