"""One seed enters a run; every program and environment derives its own."""

import enum

import numpy as np


class SeedPurpose(enum.IntEnum):
    """What a derived seed is for; the values are part of what makes runs repeatable."""

    LEARNER = 0
    COLLECT_ENV = 1
    EVAL_ENV = 2
    COLLECT_POLICY = 3
    RANDOM_POLICY = 4
    PYTHON = 5  # the global generator of the module `random`
    NUMPY = 6  # the global generator of `numpy.random`
    TENSORFLOW = 7  # the global seed of TensorFlow
    MINIBATCHES = 8  # of the learner of a deterministic run
    EVALUATORS = 9  # from which they derive theirs, as workers do from the run's
    TASK = 9  # seed of a run that is one of an array of experiments


def derive_seed(
    seed: int, purpose: SeedPurpose, index: int = 0, env_step: int = 0, num_failures: int = 0
) -> int:
    """Returns a seed in [0, 2^31) that differs by each of the arguments.

    Args:
      seed: Of the run.
      purpose: What the derived seed is for.
      index: Such as the worker's id.
      env_step: Of a worker when it starts; one that goes on draws other numbers than at first.
      num_failures: Of environments before the one that is seeded.
    """
    numbers = [seed, purpose.value, index, env_step]
    sequence = np.random.SeedSequence([*numbers, num_failures] if num_failures else numbers)
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF
