"""A learner that trains on given items, without a replay server."""

import collections
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_system.assembly import Assembly
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.minibatches import REPLAY, num_fresh_samples
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.demonstrations.rows import Rows
from tfagents_system.learning.held_demonstrations import HeldDemonstrations
from tfagents_system.learning.learner import Learner
from tfagents_system.learning.run_data import learner_data

_Sample = collections.namedtuple("_Sample", "data")


def num_items_per_step(params: Params, layout: ItemLayout) -> int:
    """Returns the number of items that a learner takes from the replay server per train step."""
    return num_fresh_samples(params) // layout.samples


def make_learner(
    params: Params, made: Assembly, items: Sequence[Any], unrolls: bool = False
) -> Learner:
    """Returns a run's learner that gets the same items in each train step.

    Its demonstrations, if the run has any, are zeros.

    Args:
      params: The user's TrainParams.
      made: Made from `params`; its agent is trained.
      items: Columns of items [N, rows, size], with N = `num_items_per_step`.
      unrolls: See `Learner`.
    """
    run = Run(ExperimentPaths(pathlib.Path()), params, Curriculum({}), 1)

    def make_iterator() -> Iterator[Any]:
        data = tf.data.Dataset.from_tensors(tuple(items)).repeat()
        return iter(data.map(lambda *batch: _Sample(batch)).prefetch(1))

    demonstrations = None
    if params.demonstrations:
        zeros = [
            np.zeros([made.layout.window, *spec.shape], spec.dtype.as_numpy_dtype)
            for spec in made.codec.columns
        ]
        demonstrations = HeldDemonstrations("", Rows(zeros, np.zeros(1, np.int32)))
    data = learner_data(run, "", made, demonstrations)  # does not connect yet
    given = [
        source._replace(make_iterator=make_iterator) if source.name == REPLAY else source
        for source in data.sources
    ]
    return Learner(made.agent, made.reader, given, made.reward_signals, unrolls=unrolls)
