"""Seeds the generators that belong to the whole process."""

import random
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfagents_system.core.seeds import SeedPurpose


def seed_global_generators(seed: Callable[[SeedPurpose], int]) -> None:
    """Seeds `random`, `numpy.random` and TensorFlow, each with `seed` of its purpose.

    For what draws from them instead of a generator of its own: TF-Agents' policies, initial weights
    and some environments. Operations that TensorFlow made before keep their seeds.
    """
    random.seed(seed(SeedPurpose.PYTHON))
    np.random.seed(seed(SeedPurpose.NUMPY))
    tf.random.set_seed(seed(SeedPurpose.TENSORFLOW))
