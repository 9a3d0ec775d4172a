"""Reads facts about a table from the replay server."""

from collections.abc import Sequence

import reverb
import tensorflow as tf


def table_stats(client: reverb.Client, table: str, timeout_secs: float) -> tuple[int, int]:
    """Returns (number of items in the table, number of items ever inserted).

    Raises:
      TimeoutError: If the server does not answer within `timeout_secs`.
    """
    info = _table_info(client, table, timeout_secs)
    return info.current_size, info.rate_limiter_info.insert_stats.completed


def table_signature(
    client: reverb.Client, table: str, timeout_secs: float
) -> Sequence[tf.TensorSpec] | None:
    """Returns the specs [rows, size] of an item's columns; None if the table accepts any.

    Raises:
      TimeoutError: If the server does not answer within `timeout_secs`.
    """
    return _table_info(client, table, timeout_secs).signature


def _table_info(
    client: reverb.Client, table: str, timeout_secs: float
) -> reverb.reverb_types.TableInfo:
    try:
        return client.server_info(timeout=max(1, round(timeout_secs)))[table]
    except (reverb.errors.ReverbError, RuntimeError) as error:  # RuntimeError: socket closed
        raise TimeoutError(f"no answer from the replay server: {error}") from error
