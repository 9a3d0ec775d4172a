"""Derives the seeds of programs and environments from the one seed of a run.

Two derivations differ because they hash different words: each argument has its own words in the
list, no argument reaches into the words of another, and no two purposes have the same value. The
hash keeps 31 bits, so two of N derived seeds are equal by chance in about N^2 / 2^32 of all runs. A
seed that is itself derived, such as the evaluators' or a task's, is the first word, like the seed
of a run.
"""

import enum

import numpy as np

_WORD = 2**32  # NumPy splits a larger number into several words


@enum.unique  # equal values would be aliases, with the same seeds
class SeedPurpose(enum.IntEnum):
    """Purpose of a derived seed; the values are part of what makes runs repeatable."""

    LEARNER = 0
    COLLECT_ENV = 1
    EVAL_ENV = 2
    COLLECT_POLICY = 3
    RANDOM_POLICY = 4
    PYTHON = 5  # the global generator of the module `random`
    NUMPY = 6  # the global generator of `numpy.random`
    TENSORFLOW = 7  # the global seed of TensorFlow
    MINIBATCHES = 8  # the learner of a deterministic run
    TASK = 9  # seed of a run that is one of an array of experiments
    EVALUATORS = 10  # evaluators derive theirs from it, as workers do from the run's
    GOALS = 11  # of the copies of transitions, if `her_copies`
    CURRICULUM = 12  # of an episode of collection
    DEMONSTRATIONS = 13  # samples that the learner draws from them
    SLOT = 14  # of a worker's further environments, from the seed of its first


def derive_seed(
    seed: int,
    purpose: SeedPurpose,
    index: int = 0,
    env_step: int = 0,
    num_failures: int = 0,
    start: int = 0,
) -> int:
    """Returns a seed in [0, 2^31) that differs if any of the arguments does.

    Args:
      seed: Of the run.
      purpose: What the derived seed is for.
      index: Such as the worker's id.
      env_step: Of a worker when it starts, or the train step of the learner, so that a resumed
        program draws new numbers.
      num_failures: Failed environments of the worker before this one.
      start: Number of the worker's start, from 0, because a worker that dies before it has
        recorded an episode starts again with the same `env_step`.
    """
    high_step, low_step = divmod(env_step, _WORD)
    high_seed, low_seed = divmod(seed, _WORD)  # the only number without limit comes last
    words = [low_seed, purpose.value, index, low_step, num_failures, start, high_step, high_seed]
    if max(words[1:-1]) >= _WORD:
        raise ValueError(f"{words[1:-1]} has a number beyond 32 bits")
    while len(words) > 4 and not words[-1]:  # NumPy takes a list of four or more as it is
        words.pop()
    return int(np.random.SeedSequence(words).generate_state(1)[0]) & 0x7FFFFFFF
