"""The type of nests."""

from typing import Any

Nest = Any  # arrays, tensors or their specs, alone or in dicts, lists and tuples, as in tf.nest
