"""Reads the items in a Reverb checkpoint, with their data, without a server."""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from reverb.cc import schema_pb2
from tensorflow.core.framework import dataset_pb2, tensor_pb2

from tfagents_system.services.replay_files import ITEMS, number_of, read_messages

CHUNKS = "chunks.tfrecord"
MOST_DECODED = 1024  # chunks at a time: those of a worker follow one another


class StoredItem(NamedTuple):
    """An item of the replay buffer."""

    number: int  # see replay_files.py; 0 if it has none
    columns: list[NDArray[Any]]  # [rows, size] each


def stored_bytes(folder: pathlib.Path) -> int:
    """Returns the size of all data in a checkpoint, uncompressed."""
    return sum(chunk.data_uncompressed_size for chunk in _chunks(folder))


def stored_items(folder: pathlib.Path, table: str) -> Iterator[StoredItem]:
    """Yields the items of `table` in the checkpoint `folder`, in the order of their numbers.

    So those of a worker come in the order in which it has made them.

    Raises:
      OSError: If a file cannot be read.
    """
    chunks = {chunk.chunk_key: chunk for chunk in _chunks(folder)}

    @functools.lru_cache(MOST_DECODED)
    def decoded(key: int, index: int) -> NDArray[Any]:
        return _decoded(chunks[key].data.tensors[index])

    items = read_messages(folder / ITEMS, schema_pb2.PrioritizedItem)
    numbered = [(number_of(item.priority) or 0, item) for item in items if item.table == table]
    for number, item in sorted(numbered, key=lambda pair: pair[0]):
        yield StoredItem(
            number, [_column(column, decoded) for column in item.flat_trajectory.columns]
        )


def _chunks(folder: pathlib.Path) -> Iterator[Any]:
    return read_messages(folder / CHUNKS, schema_pb2.ChunkData)


def _column(column: Any, decoded: Any) -> NDArray[Any]:
    parts = [
        decoded(piece.chunk_key, piece.index)[piece.offset : piece.offset + piece.length]
        for piece in column.chunk_slices
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _decoded(stored: Any) -> NDArray[Any]:
    """Returns a tensor whose content Reverb has compressed by Snappy.

    TensorFlow's op for elements of a tf.data.Dataset, which are compressed in the same way, is the
    only decoder at hand.
    """
    dtype, shape = tf.as_dtype(stored.dtype), tf.TensorShape(stored.tensor_shape)
    element = dataset_pb2.CompressedElement(data=stored.tensor_content)
    element.component_metadata.add(
        dtype=stored.dtype,
        tensor_shape=stored.tensor_shape,
        uncompressed_bytes=[shape.num_elements() * dtype.size],
    )
    wrapped = tensor_pb2.TensorProto(dtype=tf.variant.as_datatype_enum, tensor_shape={})
    wrapped.variant_val.add(
        type_name="tensorflow.data.CompressedElement", metadata=element.SerializeToString()
    )
    compressed = tf.io.parse_tensor(wrapped.SerializeToString(), tf.variant)
    (tensor,) = tf.raw_ops.UncompressElement(
        compressed=compressed, output_types=[dtype], output_shapes=[shape]
    )
    return tensor.numpy()
