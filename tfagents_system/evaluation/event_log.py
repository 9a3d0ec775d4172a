"""The TensorBoard record of one program."""

import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfagents_system.core.disk import SpaceGuard


class EventLog:
    """Writes scalars to an event file in `folder`, a new one after the disk was full.

    What follows a record that was cut short would not be read.
    """

    def __init__(self, folder: pathlib.Path):
        """Writes nothing yet."""
        self._folder = folder
        self._guard = SpaceGuard("TensorBoard events", folder)
        self._writer: tf.summary.SummaryWriter | None = None

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes one value per tag, at once."""
        with self._guard:
            writer = self._writer or tf.summary.create_file_writer(str(self._folder))
            self._writer = None
            summary = tf.compat.v1.Summary()
            for tag, value in scalars.items():
                summary.value.add(tag=tag, simple_value=value)
            # One op, and no Python numbers as its inputs: TensorFlow never forgets one it has seen.
            with writer.as_default(step=np.int64(step)):
                tf.summary.experimental.write_raw_pb(summary.SerializeToString())
            writer.flush()
            self._writer = writer

    def close(self) -> None:
        """Closes the file; `write` has left nothing to be written."""
        if self._writer is not None:
            self._writer.close()
