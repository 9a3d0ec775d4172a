"""Decides how many rows of a worker's stream the replay server keeps in one chunk.

A chunk is what the server keeps, compresses and sends as one. Each costs about 1 kB besides its
rows, so small blocks share one. A sample fetches the whole chunks of its item, so few blocks share
one, and whole ones. Blocks of images are cut, because holes between chunks of a megabyte cost a
tenth of the server's memory.
"""

import math

from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import ItemLayout

BLOCK_CHUNK_BYTES = 5000
MAX_CHUNK_BYTES = 2**17  # unless a single row is larger
SHARED_CHUNK_LENGTH = 8  # rows, of items that are not blocks


def rows_per_chunk(codec: Codec, layout: ItemLayout) -> int:
    """Returns the most rows of a chunk; a burst that ends before leaves it shorter."""
    if not layout.is_block:
        return max(layout.length // 4, 1) if layout.is_sequence else SHARED_CHUNK_LENGTH
    row_bytes = sum(math.prod(spec.shape) * spec.dtype.size for spec in codec.columns)
    if row_bytes * layout.rows <= MAX_CHUNK_BYTES:
        return layout.rows * max(1, BLOCK_CHUNK_BYTES // (row_bytes * layout.rows))
    fitting = max(1, MAX_CHUNK_BYTES // row_bytes)
    return max(rows for rows in range(1, fitting + 1) if layout.rows % rows == 0)
