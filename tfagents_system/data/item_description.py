"""Describes an item of the replay buffer as JSON, for the run's spec and checkpoints."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfagents_system.data.item_layout import ItemLayout


def item_columns(layout: ItemLayout, row: Sequence[tf.TensorSpec]) -> list[tf.TensorSpec]:
    """Returns the specs [rows, size] of an item's columns from those [size] of a row's."""
    return [tf.TensorSpec([layout.rows, *column.shape], column.dtype) for column in row]


def describe_item(layout: ItemLayout, row: Sequence[tf.TensorSpec]) -> dict[str, Any]:
    """Describes the layout and the columns of a row as JSON.

    Fields that earlier versions did not have are left out at their defaults, so that runs of those
    versions can be resumed.
    """
    columns = [[column.dtype.name, column.shape.as_list()] for column in row]
    values = dataclasses.asdict(layout)
    late = {name: values.pop(name) for name in ("num_copies", "goals_change")}
    values |= late if layout.num_copies else {}
    if layout.pads_episodes:
        del values["pads_episodes"]
    return {**values, "columns": columns}


def described_item(description: Mapping[str, Any]) -> tuple[ItemLayout, list[tf.TensorSpec]]:
    """Returns the layout and the item's columns [rows, size] from their description."""
    values = dict(description)
    row = [tf.TensorSpec(shape, tf.as_dtype(name)) for name, shape in values.pop("columns")]
    layout = ItemLayout(**values)
    return layout, item_columns(layout, row)
