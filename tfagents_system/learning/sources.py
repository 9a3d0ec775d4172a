"""Mixes minibatches from the samples of several sources."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.learning.sampling_pool import SamplingPool, keys_of


class Minibatch(NamedTuple):
    """An element of an iterator over samples in memory; a replay server's sample has this field."""

    data: tuple[tf.Tensor, ...]  # columns [N, window, size]


def iterator_of(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Returns an iterator without autotuning and graph rewriting: they cost more than they save."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return iter(dataset.with_options(options))


class Source(NamedTuple):
    """The source of a part of each minibatch."""

    name: str  # for metrics
    num_samples: int  # samples in each minibatch; see `samples_by_source`
    # Returns a new iterator over packed parts of minibatches, or over the fresh items that `pool`
    # takes in each step, or raises TimeoutError; called again after data has ended or its server
    # has gone.
    make_iterator: Callable[[], Iterator[Any]]
    pool: SamplingPool | None = None  # draws the part; None takes it directly from the iterator
    # Whether the part may have fewer samples; then those of the first source fill it. A pool of the
    # first source draws enough for that, otherwise its part is repeated.
    may_lack: bool = False


class Mixer:
    """Joins minibatches from the parts of all sources, in the order of the sources.

        iterators = mixer.open()            # before train steps, and after data has ended

    In the graph of train steps:

        drawn = mixer.draw()
        samples, waits = mixer.wait(iterators, num_steps, after)
        for of_step in samples:
            minibatch = mixer.mix(of_step, drawn)
            drawn = mixer.renew(of_step)
    """

    def __init__(self, sources: Sequence[Source]):
        """Does not use the sources yet."""
        self._sources = list(sources)
        self._is_filled = [source.pool is None for source in sources]
        self._asked = tf.Variable(0, trainable=False, name="asked_source")

    @property
    def asked(self) -> str:
        """Name of the source that was asked last: if data has ended, the one without data."""
        return self._sources[int(self._asked.numpy())].name

    def open(self) -> list[Iterator[Any]]:
        """Returns an iterator of each source, after filling the pools of new sources.

        Blocks for the pools, and raises the iterators' exceptions.
        """
        iterators = []
        for index, source in enumerate(self._sources):
            self._asked.assign(index)
            iterators.append(source.make_iterator())
            if source.pool is not None and not self._is_filled[index]:
                source.pool.fill(iterators[-1])
                self._is_filled[index] = True
        return iterators

    def minibatch_spec(self, iterators: Sequence[tf.data.Iterator]) -> tuple[tf.TensorSpec, ...]:
        """Returns the specs of the columns [B, window, size] of a minibatch."""
        batch_size = sum(source.num_samples for source in self._sources)
        source, iterator = self._sources[0], iterators[0]
        columns = iterator.element_spec.data if source.pool is None else source.pool.minibatch_spec
        return tuple(tf.TensorSpec([batch_size, *c.shape[1:]], c.dtype) for c in columns)

    def wait(
        self, iterators: Sequence[Iterator[Any]], num_steps: int, after: tf.Tensor
    ) -> tuple[list[list[Any]], dict[str, tf.Tensor]]:
        """Takes the data of the next train steps, after `after` is known.

        Returns a sample of each source for each train step, and the seconds that a step waited, as
        metrics; with several sources, also the seconds for each.
        """
        with tf.control_dependencies([after]):
            times = [tf.timestamp()]
        arrived = []
        for index, iterator in enumerate(iterators):
            with tf.control_dependencies([self._ask(index, times[-1])]):
                arrived.append([next(iterator) for _ in range(num_steps)])
            with tf.control_dependencies(tf.nest.flatten(arrived[-1])):
                times.append(tf.timestamp())

        def secs(begin: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            return tf.cast(end - begin, tf.float32) / num_steps

        waits = {"data_wait_secs": secs(times[0], times[-1])}
        if len(self._sources) > 1:
            for source, between in zip(self._sources, itertools.pairwise(times), strict=True):
                waits[f"{source.name}_wait_secs"] = secs(*between)
        return [list(of_step) for of_step in zip(*arrived, strict=True)], waits

    def _ask(self, index: int, after: tf.Tensor) -> tf.Tensor:
        """Records which of several sources is asked after `after`; returns the op to wait for."""
        if len(self._sources) == 1:
            return after
        with tf.control_dependencies([after]):
            return self._asked.assign(index)

    def draw(self) -> list[tuple[tf.Tensor, ...]]:
        """Draws the parts that come from pools; () for the other sources."""
        return [() if source.pool is None else source.pool.draw() for source in self._sources]

    def mix(
        self, samples: Sequence[Any], drawn: Sequence[tuple[tf.Tensor, ...]]
    ) -> tuple[tf.Tensor, ...]:
        """Joins samples and drawn parts to a minibatch, columns [B, window, size]."""
        parts = [part or sample.data for sample, part in zip(samples, drawn, strict=True)]
        if any(source.may_lack for source in self._sources):
            parts = self._filled(parts)
        if len(parts) == 1:
            return parts[0]
        return tuple(tf.concat(columns, axis=0) for columns in zip(*parts, strict=True))

    def _filled(self, parts: Sequence[tuple[tf.Tensor, ...]]) -> list[tuple[tf.Tensor, ...]]:
        """Returns the parts of a minibatch, each with all its samples."""
        first, num_of_first = parts[0], self._sources[0].num_samples
        filled = [tuple(column[:num_of_first] for column in first)]
        for source, part in zip(self._sources[1:], parts[1:], strict=True):
            if source.may_lack:
                places = (num_of_first + tf.range(source.num_samples)) % first[0].shape[0]
                spare = [tf.gather(column, places) for column in first]
                part = tuple(
                    tf.ensure_shape(tf.concat(both, axis=0)[: source.num_samples], both[1].shape)
                    for both in zip(part, spare, strict=True)
                )
            filled.append(part)
        return filled

    def renew(self, samples: Sequence[Any]) -> list[tuple[tf.Tensor, ...]]:
        """Adds samples to their sources' pools, and returns newly drawn parts."""
        for source, sample in zip(self._sources, samples, strict=True):
            if source.pool is not None:
                source.pool.add(sample.data, keys_of(sample))
        return self.draw()

    def keys(self, samples: Sequence[Any]) -> list[tf.Tensor]:
        """Returns the keys [N] of each source's items in a minibatch; [0] if its pool has them."""
        none = tf.zeros([0], tf.int64)
        of_parts = [keys_of(sample) for sample in samples]
        return [
            none if keys is None or source.pool is not None else keys
            for source, keys in zip(self._sources, of_parts, strict=True)
        ]

    def keys_of_samples(
        self,
        samples: Sequence[int],
        minibatch: Sequence[NDArray[Any]],
        keys: Sequence[NDArray[Any]],
    ) -> set[int]:
        """Returns the keys of the items from which some `samples` of a minibatch come, if known.

        Args:
          samples: Indices in the minibatch.
          minibatch: Columns [B, window, size].
          keys: The result of `keys`.
        """
        found: set[int] = set()
        begin = 0
        for source, of_part in zip(self._sources, keys, strict=True):
            end = begin + source.num_samples
            places = [place for place in samples if begin <= place < end]
            pool = self._sources[0].pool if source.may_lack else source.pool
            if pool is not None:
                found |= pool.keys_of([column[places] for column in minibatch])
            elif len(of_part):
                found |= {int(of_part[place - begin]) for place in places}
            begin = end
        return found
