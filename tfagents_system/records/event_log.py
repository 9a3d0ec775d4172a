"""Writes the TensorBoard record of one program."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.settings.variables import has_mlagents_tags
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.records.mlagents_tags import mlagents_scalars

NUM_BINS = 30
LARGEST_VALUE = 1e150  # its square is finite


class EventLog:
    """Writes values to an event file in `folder`, and begins a new file after a full disk.

    Readers stop at a record that was cut short. With SAC_MLAGENTS_TAGS=1 values have the tags of
    ML-Agents, too.
    """

    def __init__(self, folder: pathlib.Path):
        """Writes nothing yet."""
        self._folder = folder
        self._guard = SpaceGuard("TensorBoard events", folder)
        self._writer: tf.summary.SummaryWriter | None = None
        self._has_mlagents_tags = has_mlagents_tags(os.environ)

    @OnlyReports("TensorBoard events")
    def write(
        self,
        step: int,
        scalars: Mapping[str, float],
        distributions: Mapping[str, Sequence[float]] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Writes and flushes one value per tag; distributions as histograms, texts as Markdown."""
        with self._guard:
            writer = self._writer or tf.summary.create_file_writer(str(self._folder))
            self._writer = None
            summary = tf.compat.v1.Summary()
            others = mlagents_scalars(step, scalars) if self._has_mlagents_tags else {}
            for tag, value in (*scalars.items(), *others.items()):
                summary.value.add(tag=tag, simple_value=value)
            for tag, values in (distributions or {}).items():
                if len(finite := _finite(values)):
                    summary.value.add(tag=tag, histo=_histogram(finite))
            for tag, text in (texts or {}).items():
                plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="text")
                metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)
                summary.value.add(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto([text]))
            # One op without Python numbers as inputs, because TensorFlow caches each number.
            with writer.as_default(step=np.int64(step)):
                tf.summary.experimental.write_raw_pb(summary.SerializeToString())
            writer.flush()
            self._writer = writer

    @OnlyReports("TensorBoard events")
    def close(self) -> None:
        """Closes the file; `write` has already flushed everything."""
        if self._writer is not None:
            self._writer.close()


def _finite(values: Sequence[float]) -> NDArray[np.float64]:
    """Returns the finite values, clipped at LARGEST_VALUE."""
    array = np.asarray(values, np.float64)
    return np.clip(array[np.isfinite(array)], -LARGEST_VALUE, LARGEST_VALUE)


def _histogram(values: NDArray[np.float64]) -> tf.compat.v1.HistogramProto:
    """Returns NUM_BINS bins, or fewer between values that are almost equal.

    NumPy's automatic number of bins could be 10^14 for values between 1e-3 and 1e13.
    """
    limits = np.unique(np.linspace(values.min(), values.max(), NUM_BINS + 1)[1:])
    counts = np.bincount(np.searchsorted(limits, values), minlength=len(limits))
    return tf.compat.v1.HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=np.square(values).sum(), bucket_limit=limits, bucket=counts,
    )  # fmt: skip
