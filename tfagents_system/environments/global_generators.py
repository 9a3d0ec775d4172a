"""Seeds the process-wide random generators."""

import contextlib
import random
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tfagents_system.core.seeds import SeedPurpose


def seed_global_generators(seed: Callable[[SeedPurpose], int]) -> None:
    """Seeds `random`, `numpy.random` and TensorFlow, each with its own derived seed.

    TF-Agents' policies, initial weights and some environments draw from these instead of generators
    of their own. Existing TensorFlow operations keep their seeds.
    """
    random.seed(seed(SeedPurpose.PYTHON))
    np.random.seed(seed(SeedPurpose.NUMPY))
    tf.random.set_seed(seed(SeedPurpose.TENSORFLOW))


@contextlib.contextmanager
def kept_generators(own: np.random.Generator | None) -> Iterator[None]:
    """Restores `random`, `numpy.random` and `own` after the block, as if it drew nothing."""
    python, numpy = random.getstate(), np.random.get_state()
    state = own.bit_generator.state if own else {}
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if own:
            own.bit_generator.state = state
