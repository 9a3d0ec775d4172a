"""Keeps the items that an adder makes in memory, in place of a replay server."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class ItemRecorder:
    """Stands for a client of the replay server, and for its writer, to an Adder.

    adder = Adder(recorder := ItemRecorder(), codec, layout)
    adder.add(...); adder.send(); recorder.items   # columns [rows, size] of each
    """

    def __init__(self) -> None:
        """Has no items yet."""
        self.items: list[list[NDArray[Any]]] = []
        self._writer = self  # as of Reverb's writer: that in C++

    def trajectory_writer(self, **options: Any) -> "ItemRecorder":
        """Returns what an adder writes to."""
        return self

    def ConfigureChunker(self, column: int, options: Any) -> None:
        """There are no chunks here."""

    def Append(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Returns references to the columns of a row: they themselves."""
        return columns

    def CreateItem(
        self, table: str, priority: float, references: list[list[NDArray[Any]]], is_single: Any
    ) -> None:
        """Keeps an item; `references` are the rows of each column."""
        self.items.append([np.stack(rows) for rows in references])

    def flush(self, timeout_ms: int) -> None:
        """Everything is there."""
