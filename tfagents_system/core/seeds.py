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


def derive_seed(seed: int, purpose: SeedPurpose, index: int = 0) -> int:
    """Returns a seed in [0, 2^31) that differs by purpose and index (such as the worker's id)."""
    sequence = np.random.SeedSequence([seed, purpose.value, index])
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF
