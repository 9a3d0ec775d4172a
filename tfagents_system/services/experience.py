"""Samples the experience table in batches."""

from collections.abc import Iterator
from typing import Any

import reverb
import tensorflow as tf

from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats


class ExperienceBatches:
    """Endless packed batches of sampled items.

        batches = ExperienceBatches(address, reader, batch_size=64, num_in_flight=256,
                                    timeout_secs=2.0)
        iterator = iter(batches)  # again after the one before has ended

    No sample is lost between one iterator and the next: the server has counted it, and would give
    no other for it.
    """

    def __init__(
        self,
        address: str,
        reader: SampleReader,
        batch_size: int,
        num_in_flight: int,
        timeout_secs: float,
    ):
        """Sends no request yet.

        Args:
          address: host:port of the replay server.
          reader: Has the columns and the layout of its items.
          batch_size: B, in samples; a multiple of the layout's samples per item.
          num_in_flight: Samples that the server may send ahead, at least B.
          timeout_secs: Longest wait for the server's rate limiter.
        """
        self._address, self._timeout_secs = address, timeout_secs
        self._num_items = batch_size // reader.layout.samples
        self._num_in_flight = num_in_flight // reader.layout.samples
        self._specs = reader.columns
        self._kept: list[Any] | None = None  # of a batch for which data ended

    def __iter__(self) -> Iterator[Any]:
        """Returns a new iterator; only the newest may be used.

        Its elements are `reverb.ReplaySample`s, whose data are columns [B / samples, rows, size].
        It ends (OutOfRangeError) when the rate limiter yields nothing for `timeout_secs`.

        Raises:
          TimeoutError: If the server does not answer; an iterator would wait for it without limit.
        """
        experience_stats(reverb.Client(self._address), self._timeout_secs)
        sampled = reverb.TrajectoryDataset(
            server_address=self._address,
            table=EXPERIENCE_TABLE,
            dtypes=tuple(spec.dtype for spec in self._specs),
            shapes=tuple(spec.shape for spec in self._specs),
            max_in_flight_samples_per_worker=self._num_in_flight,
            num_workers_per_iterator=1,
            rate_limiter_timeout_ms=int(self._timeout_secs * 1000),
        )
        # One stream without ops on single items, which cost several times the sampling itself.
        batches = self._kept_items(sampled.element_spec).concatenate(sampled).batch(self._num_items)
        whole = batches.filter(self._is_whole).map(self._with_shapes)
        options = tf.data.Options()
        options.autotune.enabled = False
        options.threading.private_threadpool_size = 1
        options.experimental_optimization.apply_default_optimizations = False
        return iter(whole.prefetch(1).with_options(options))

    def _kept_items(self, spec: Any) -> tf.data.Dataset:
        """Returns the items of the incomplete batch, which are then no longer kept."""
        kept, self._kept = self._kept, None
        if kept is None:
            kept = [tf.zeros([0, *field.shape], field.dtype) for field in tf.nest.flatten(spec)]
        return tf.data.Dataset.from_tensor_slices(tf.nest.pack_sequence_as(spec, kept))

    def _is_whole(self, sample: Any) -> tf.Tensor:
        """Returns whether a batch has all its items, and keeps those of one that has not."""
        fields = tf.nest.flatten(sample)

        def keep(*values: Any) -> bool:
            self._kept = [*values]
            return False

        return tf.cond(
            tf.shape(fields[0])[0] == self._num_items,
            lambda: True,
            lambda: tf.numpy_function(keep, fields, tf.bool),
        )

    def _with_shapes(self, sample: Any) -> Any:
        """Returns a whole batch, whose number of items is then known to the graph."""
        fields = [
            tf.ensure_shape(field, [self._num_items, *field.shape[1:]])
            for field in tf.nest.flatten(sample)
        ]
        return tf.nest.pack_sequence_as(sample, fields)
