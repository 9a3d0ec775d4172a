"""The sources of the learner's minibatches: the replay buffer, and demonstrations if there are any.

Offline, demonstrations are the only source; otherwise, a minibatch begins with the samples of the
replay buffer. To add a source, add its name to `samples_by_source` and its `Source` to what
`learner_data` returns.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.assembly import Assembly
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.minibatches import (
    DEMONSTRATIONS,
    REPLAY,
    num_fresh_samples,
    num_samples_in_flight,
    samples_by_source,
    trains_offline,
)
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.demonstrations.episode_file import MAX_BYTES
from tfagents_system.demonstrations.rows import rows_of
from tfagents_system.learning.growing_samples import GrowingSamples, growing_source
from tfagents_system.learning.held_demonstrations import HeldDemonstrations
from tfagents_system.learning.held_samples import held_source, random_transitions
from tfagents_system.learning.sampling_pool import SamplingPool, pool_capacity
from tfagents_system.learning.sources import Source
from tfagents_system.learning.whole_buffer import RoundMinibatches, WholeBuffer
from tfagents_system.services.experience import ExperienceBatches
from tfagents_system.services.intervention_files import InterventionReader
from tfagents_system.services.replay_limits import ReplayLimits
from tfagents_system.services.rounds import RoundReader

DATA_TIMEOUT_SECS = 2.0  # longest wait for data before the learner checks for a stop


class LearnerData(NamedTuple):
    """The sources of a `Learner`'s minibatches, until `close`."""

    sources: Sequence[Source]
    close: Callable[[], None]
    numbers: Callable[[], dict[str, float]] = dict  # facts of the sources, for summaries
    offline: str | None = None  # for an offline run, what it learns from, and what that means
    in_lock_step: bool = False  # learner and worker take turns


def learner_data(
    run: Run,
    address: str,
    made: Assembly,
    demonstrations: HeldDemonstrations | None = None,
    is_deterministic: bool = False,
) -> LearnerData:
    """Returns the sources of a run.

    Args:
      run: The experiment.
      address: host:port of the replay server.
      made: Its agent, and the layout of its data.
      demonstrations: The run's demonstrations, if it has any.
      is_deterministic: Whether learner and worker take turns.

    Raises:
      ConfigError: If the sources would take too much memory.
    """
    if trains_offline(run.params):
        described = demonstrations and demonstrations.described
        data = LearnerData([], lambda: None, offline=described)
    elif is_deterministic:
        data = data_in_rounds(run, address, made.reader, made.train_step)
    else:
        data = sampled_data(run, address, made.reader)
    num_samples = samples_by_source(run.params).get(DEMONSTRATIONS, 0)
    if demonstrations is not None:
        starts = demonstrations.rows.starts
        columns = [*map(tf.constant, demonstrations.rows.columns)]
        _imitate(columns, starts, made)
    if num_samples and run.params.keep_interventions:
        return _with_interventions(data, run, made, demonstrations, num_samples)
    if demonstrations is None or not num_samples:
        return data
    window, seed = made.layout.window, derive_seed(run.seed, SeedPurpose.DEMONSTRATIONS)
    held = held_source(DEMONSTRATIONS, columns, starts, window, num_samples, seed, made.train_step)
    return data._replace(sources=[*data.sources, held])


def _imitate(columns: Sequence[tf.Tensor], starts: NDArray[Any], made: Assembly) -> None:
    """Passes demonstrations to the parts that imitate them."""
    if made.streams is not None:
        made.streams.imitate(random_transitions(columns, starts, made.reader))
    if isinstance(made.agent, ActorCriticAgent) and made.agent.cloning is not None:
        made.agent.cloning.imitate(random_transitions(columns, starts, made.reader))


def _with_interventions(
    data: LearnerData,
    run: Run,
    made: Assembly,
    demonstrations: HeldDemonstrations | None,
    num_samples: int,
) -> LearnerData:
    """Adds the source of demonstrations, if there are any, and of kept interventions."""
    if demonstrations is None:
        rows = rows_of([], made.codec, made.layout, run.params.discount)
    else:
        rows = demonstrations.rows
    samples = GrowingSamples(*rows, made.layout.window, MAX_BYTES)
    files = InterventionReader(run.paths.interventions, made.reader)

    def look() -> None:
        for columns, starts in files.new_samples():
            samples.add(columns, starts)

    def numbers() -> dict[str, float]:
        return {"kept_interventions": samples.num_added}

    seed = derive_seed(run.seed, SeedPurpose.DEMONSTRATIONS)
    growing = growing_source(DEMONSTRATIONS, samples, look, num_samples, seed, made.train_step)
    return data._replace(sources=[*data.sources, growing], numbers=numbers)


def sampled_data(run: Run, address: str, reader: SampleReader) -> LearnerData:
    """Returns new samples from the replay server at `address`, and the pool that they renew."""
    num_samples = samples_by_source(run.params)[REPLAY]
    num_fresh, num_in_flight = num_fresh_samples(run.params), num_samples_in_flight(run.params)

    batches = ExperienceBatches(address, reader, num_fresh, num_in_flight, DATA_TIMEOUT_SECS)
    pool = _make_pool(run, reader, num_fresh, num_samples)
    return LearnerData(
        [Source(REPLAY, num_samples, functools.partial(iter, batches), pool)], lambda: None
    )


def data_in_rounds(
    run: Run, address: str, reader: SampleReader, train_step: tf.Variable
) -> LearnerData:
    """Returns the minibatches of a deterministic run, drawn from the learner's memory.

    Args:
      run: The experiment.
      address: host:port of the replay server.
      reader: Reads the items.
      train_step: Counts the train steps done.

    Raises:
      ConfigError: If it would take too much memory.
    """
    params = run.params
    capacity = ReplayLimits.from_settings(params, run.horizon, reader.layout).capacity
    seed = derive_seed(run.seed, SeedPurpose.MINIBATCHES)
    num_samples = samples_by_source(params)[REPLAY]
    buffer = WholeBuffer(reader, capacity, num_samples, seed)
    rounds = RoundReader(address, reader)
    minibatches = RoundMinibatches(
        buffer, rounds.take, params.num_steps_per_iter, DATA_TIMEOUT_SECS
    )

    def make_iterator() -> Iterator[Any]:
        return minibatches.iterator(int(train_step.numpy()))

    sources = [Source(REPLAY, num_samples, make_iterator)]
    return LearnerData(sources, rounds.close, in_lock_step=True)


def _make_pool(
    run: Run, reader: SampleReader, num_fresh: int, num_samples: int
) -> SamplingPool | None:
    """Returns a pool for `num_samples` per train step, in which `num_fresh` are replaced each time.

    None if all samples are new each time.
    """
    layout = reader.layout
    if num_fresh == num_samples:
        return None
    limits = ReplayLimits.from_settings(run.params, run.horizon, layout)
    max_size = layout.samples_in(limits.capacity, run.horizon)
    capacity = pool_capacity(reader, num_fresh, num_samples, max_size)
    num_initial = layout.samples_in(limits.min_size, run.horizon)
    # While there are few interventions, the replay buffer's samples fill the minibatch.
    num_drawn = run.params.train_batch_size if run.params.keep_interventions else num_samples
    return SamplingPool(reader, capacity, num_initial, num_fresh, num_drawn)
