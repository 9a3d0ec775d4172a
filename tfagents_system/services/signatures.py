"""Compares the columns of a program's items with the signature of the replay server's table.

Reverb's server accepts any items from a writer, and then the learner that samples them fails; a
writer that validates may wait for the server without limit. So each program compares once, when
it connects.
"""

import pathlib
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.python.saved_model.nested_structure_coder import decode_proto

from tfagents_system.core.errors import ConfigError
from tfagents_system.services.replay_files import read_table

Signature = Iterable[tf.TensorSpec]  # [rows, size] of each column


def check_columns(signature: Signature | None, columns: Signature) -> None:
    """Compares a program's columns with the signature of the server's table, if it has one.

    Raises:
      ConfigError: If they differ.
    """
    if signature is not None and _describe(signature) != _describe(columns):
        raise ConfigError(
            f"the replay server's table is for items of {_describe(signature)}, but this program's "
            f"are {_describe(columns)}. Was a file edited after the start of the run? Start "
            "run_script.sh again: that applies the edit to all programs at once."
        )


def check_saved_columns(checkpoint: pathlib.Path, table: str, columns: Signature) -> None:
    """Compares a run's columns with those of the items in `checkpoint`, if it has them.

    Otherwise Reverb would silently restore the table with the checkpoint's signature.

    Raises:
      ConfigError: If they differ.
    """
    saved = read_table(checkpoint, table)
    if not saved.HasField("signature"):
        return
    before, now = _describe(decode_proto(saved.signature)), _describe(columns)
    if before != now:
        raise ConfigError(
            f"{checkpoint} holds items of {before}, but those of the run are {now} now. The "
            "observations, actions, sequences and blocks (as many transitions as the greatest "
            "common divisor of 8 and fresh_samples_per_step) of an experiment that has begun may "
            "not change: restore them, or start again with another SAC_EXP_NAME."
        )


def _describe(signature: Signature) -> str:
    return ", ".join(f"{column.dtype.name} {column.shape.as_list()}" for column in signature)
