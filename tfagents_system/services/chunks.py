"""Chooses how many rows of a worker's stream share a chunk.

The server keeps, compresses and sends chunks as a whole. A chunk costs about 1 kB in addition to
its rows, so small blocks share one. A sample fetches all chunks of its item, so few blocks share
one, and only whole blocks. Blocks of images are cut, because with chunks of a megabyte,
fragmentation costs a tenth of the server's memory.
"""

import math

from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import ItemLayout

BLOCK_CHUNK_BYTES = 5000
MAX_CHUNK_BYTES = 2**17  # unless a single row is larger
SHARED_CHUNK_LENGTH = 8  # rows, for items that are not blocks


def rows_per_chunk(codec: Codec, layout: ItemLayout) -> int:
    """Returns the maximum of rows per chunk; the end of a burst also ends a chunk."""
    if not layout.is_block:
        return max(layout.length // 4, 1) if layout.is_sequence else SHARED_CHUNK_LENGTH
    row_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in codec.columns)
    if row_bytes * layout.rows <= MAX_CHUNK_BYTES:
        return layout.rows * max(1, BLOCK_CHUNK_BYTES // (row_bytes * layout.rows))
    fitting = max(1, MAX_CHUNK_BYTES // row_bytes)
    return max(rows for rows in range(1, fitting + 1) if layout.rows % rows == 0)
